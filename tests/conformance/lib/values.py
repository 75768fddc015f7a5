"""Variables, generators and JSON pointers within rows."""
import base64
import copy
import re

from . import tars

VARIABLE = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_.]*|image\.[a-z.-]+)\}")


class Unknown(Exception):
    """A variable that nothing has set."""


def look_up(name, variables):
    if name not in variables:
        raise Unknown(f"unknown variable ${{{name}}}")
    return variables[name]


def fill_text(text, variables):
    whole = VARIABLE.fullmatch(text)
    if whole:
        return look_up(whole.group(1), variables)
    return VARIABLE.sub(lambda found: str(look_up(found.group(1), variables)), text)


def repeat(argument):
    unit, times = argument
    return unit * times


def nest(argument):
    """Objects within objects, so that the value is `argument` deep."""
    value = {}
    for _ in range(argument - 1):
        value = {"a": value}
    return value


def keys(argument):
    """An object of that many numbered keys."""
    return {f"k{index}": "v" for index in range(argument)}


GENERATORS = {
    "$repeat": repeat,
    "$nest": nest,
    "$keys": keys,
    "$join": "".join,
    "$items": lambda argument: [argument[0]] * argument[1],
    "$base64": lambda argument: base64.b64encode(argument.encode()).decode(),
    "$concat": lambda argument: [item for part in argument for item in part],
    "$merge": lambda argument: {key: item for part in argument for key, item in part.items()},
    "$without": lambda argument: {key: value for key, value in argument[0].items()
                                  if key not in argument[1]},
    "$tar": tars.make,
}


def fill(value, variables):
    """A deep copy with variables replaced and generators carried out."""
    if isinstance(value, str):
        return fill_text(value, variables)
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    if isinstance(value, dict):
        if len(value) == 1:
            (key, argument), = value.items()
            if key == "$literal":
                return argument
            if key in GENERATORS:
                return GENERATORS[key](fill(argument, variables))
        return {fill_text(key, variables): fill(item, variables) for key, item in value.items()}
    return value


def pointer_parts(pointer):
    if pointer == "":
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def pointer_get(value, pointer):
    """In a list "key=text" stands for the first item with that member."""
    for part in pointer_parts(pointer):
        if isinstance(value, list) and "=" in part:
            key, _, text = part.partition("=")
            value = next(item for item in value if item[key] == text)
        else:
            value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def pointer_set(document, pointer, value):
    parts = pointer_parts(pointer)
    for part in parts[:-1]:
        document = document[int(part)] if isinstance(document, list) else \
            document.setdefault(part, {})
    if isinstance(document, list):
        document[int(parts[-1])] = value
    else:
        document[parts[-1]] = value


def pointer_remove(document, pointer):
    parts = pointer_parts(pointer)
    for part in parts[:-1]:
        document = document[int(part)] if isinstance(document, list) else document[part]
    del document[int(parts[-1]) if isinstance(document, list) else parts[-1]]


def edited(base, changes, removals):
    document = copy.deepcopy(base)
    for pointer, value in (changes or {}).items():
        pointer_set(document, pointer, value)
    for pointer in removals or []:
        pointer_remove(document, pointer)
    return document
