"""Expectations as data: a subset match of JSON with matchers.

An object matches when each of its keys matches; a list matches item by item; everything else
matches when it is equal and of the same type. An object with one key that starts with `$` is a
matcher, see MATCHERS.
"""
import hashlib
import re


class Mismatch(Exception):
    """What did not match, with the path to it."""


def type_name(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return {str: "string", list: "array", dict: "object", bytes: "bytes"}[type(value)]


def short(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]}…{text[-60:]} ({len(text)} characters)"


def fail(path, text):
    raise Mismatch(f"{path or '/'}: {text}")


def equal(expected, actual, path):
    same_kind = isinstance(expected, bool) == isinstance(actual, bool)
    if not same_kind or expected != actual:
        fail(path, f"expected {short(expected)}, got {short(actual)}")


def match_regex(argument, actual, path):
    if not isinstance(actual, str) or not re.search(argument, actual, re.DOTALL):
        fail(path, f"expected a match of {argument!r}, got {short(actual)}")


def match_type(argument, actual, path):
    wanted = argument if isinstance(argument, list) else [argument]
    name = type_name(actual)
    if name not in wanted and not (name == "integer" and "number" in wanted):
        fail(path, f"expected {'|'.join(wanted)}, got {name} {short(actual)}")


def match_range(argument, actual, path):
    low, high = argument
    number = isinstance(actual, (int, float)) and not isinstance(actual, bool)
    if not number or (low is not None and actual < low) or (high is not None and actual > high):
        fail(path, f"expected {low}..{high}, got {short(actual)}")


def match_exact(argument, actual, path):
    if type_name(argument) != type_name(actual):
        fail(path, f"expected exactly {short(argument)}, got {short(actual)}")
    if isinstance(argument, dict):
        extra = sorted(set(actual) - set(argument))
        missing = sorted(set(argument) - set(actual))
        if extra or missing:
            fail(path, f"missing {missing}, unexpected {extra}")
        for key in argument:
            match_exact(argument[key], actual[key], f"{path}/{key}")
    elif isinstance(argument, list):
        if len(argument) != len(actual):
            fail(path, f"expected {len(argument)} items, got {short(actual)}")
        for index, item in enumerate(argument):
            match_exact(item, actual[index], f"{path}/{index}")
    else:
        equal(argument, actual, path)


def match_one_of(argument, actual, path):
    reasons = []
    for option in argument:
        try:
            match(option, actual, path)
            return
        except Mismatch as error:
            reasons.append(str(error))
    fail(path, "none of: " + "; ".join(reasons))


def match_all(argument, actual, path):
    for option in argument:
        match(option, actual, path)


def match_not(argument, actual, path):
    try:
        match(argument, actual, path)
    except Mismatch:
        return
    fail(path, f"must not match {short(argument)}, got {short(actual)}")


def match_contains(argument, actual, path):
    if isinstance(actual, str):
        if argument not in actual:
            fail(path, f"expected {argument!r} within {short(actual)}")
        return
    if not isinstance(actual, list):
        fail(path, f"expected a list or a string, got {short(actual)}")
    for item in actual:
        try:
            match(argument, item, path)
            return
        except Mismatch:
            continue
    fail(path, f"no item matches {short(argument)} in {short(actual)}")


def match_length(argument, actual, path):
    if not hasattr(actual, "__len__"):
        fail(path, f"expected something with a length, got {short(actual)}")
    match(argument, len(actual), f"{path}(length)")


def match_bytes(argument, actual, path):
    if not isinstance(actual, str):
        fail(path, f"expected a string, got {short(actual)}")
    match(argument, len(actual.encode("utf-8", "surrogatepass")), f"{path}(bytes)")


def match_sha256(argument, actual, path):
    if not isinstance(actual, str):
        fail(path, f"expected a string, got {short(actual)}")
    equal(argument, hashlib.sha256(actual.encode()).hexdigest(), f"{path}(sha256)")


def match_lines(argument, actual, path):
    """The lines of a text are exactly these, in any order."""
    if not isinstance(actual, str):
        fail(path, f"expected a string, got {short(actual)}")
    equal(sorted(argument), sorted(actual.splitlines()), f"{path}(lines)")


def match_any(_argument, _actual, _path):
    return


MATCHERS = {
    "$regex": match_regex, "$type": match_type, "$range": match_range, "$exact": match_exact,
    "$oneOf": match_one_of, "$all": match_all, "$not": match_not, "$contains": match_contains,
    "$length": match_length, "$bytes": match_bytes, "$sha256": match_sha256,
    "$lines": match_lines, "$any": match_any,
}


def is_absent(expected):
    return isinstance(expected, dict) and expected == {"$absent": True}


def match(expected, actual, path=""):
    if isinstance(expected, dict):
        if len(expected) == 1:
            (key, argument), = expected.items()
            if key.startswith("$"):
                if key not in MATCHERS:
                    raise ValueError(f"unknown matcher {key}")
                MATCHERS[key](argument, actual, path)
                return
        match_object(expected, actual, path)
    elif isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            fail(path, f"expected {len(expected)} items, got {short(actual)}")
        for index, item in enumerate(expected):
            match(item, actual[index], f"{path}/{index}")
    else:
        equal(expected, actual, path)


def match_object(expected, actual, path):
    if not isinstance(actual, dict):
        fail(path, f"expected an object, got {short(actual)}")
    for key, value in expected.items():
        if is_absent(value):
            if key in actual:
                fail(f"{path}/{key}", f"must be absent, is {short(actual[key])}")
        elif key not in actual:
            fail(f"{path}/{key}", "is missing")
        else:
            match(value, actual[key], f"{path}/{key}")
