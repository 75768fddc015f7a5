"""What openapi.yaml forbids, made from it: bodies with one fault each, with the JSON pointer that an
answer has to name; and query parameters likewise. Bodies are text, so that keys can come twice."""
import json
import re

WRONG = {"string": "text", "integer": 7, "number": 1.5, "boolean": True, "object": {"k": 1},
         "array": [1], "null": None}
# Which JSON types a value of a schema's type may have as well.
ALSO = {"number": {"integer"}, "integer": set()}
FAR = 2 ** 53 + 2
LONG = 1 << 16


class Mutant:
    """One body. `pointer` None: at a limit, so the body itself is good."""

    def __init__(self, name, text, pointer):
        self.name = name
        self.text = text
        self.pointer = pointer


def copy_with(value, path, change):
    """A copy of `value` where `change(parent, key)` was made at `path`."""
    fresh = json.loads(json.dumps(value))
    at = fresh
    for key in path[:-1]:
        at = at[key]
    change(at, path[-1])
    return fresh


def pointer_of(path):
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)


def types_of(schema):
    found = schema.get("type", [])
    found = {found} if isinstance(found, str) else set(found)
    if "const" in schema or "enum" in schema:
        for value in schema.get("enum", [schema.get("const")]):
            found.add(next(name for name, python in (("null", type(None)), ("boolean", bool),
                                                     ("integer", int), ("string", str))
                           if isinstance(value, python)))
    return found


class Maker:
    def __init__(self, document):
        self.document = document

    def flat(self, schema):
        """The schema without references; of alternatives the one that is no null; whether null is
        taken as well."""
        schema = self.document.resolve(schema)
        nullable = "null" in types_of(schema)
        if "anyOf" in schema:
            parts = [self.document.resolve(part) for part in schema["anyOf"]]
            nullable = nullable or any(types_of(part) == {"null"} for part in parts)
            schema = next(part for part in parts if types_of(part) != {"null"})
        return schema, nullable

    def choose(self, schema, value):
        """Of several kinds of an object the one that `value` is."""
        if "oneOf" not in schema:
            return schema
        parts = [self.document.resolve(part) for part in schema["oneOf"]]
        return next(part for part in parts
                    if self.document.validator(part).is_valid(value))

    # --- bodies ---

    def bodies(self, schema, value):
        """Every mutant of a good body."""
        for text in ("", "{", "[]", "7", "null", "\"text\"", "{\"a\":1,\"a\":1}", "{} {}", "\ufeff{}",
                     "{\"a\":\"\\u0000\"}", "[" * 100 + "]" * 100):
            yield Mutant(f"text {text[:12]!r}", text, "" if text in ("7", "[]", "null", "\"text\"") else "?")
        yield from self.object(schema, value, value, [])

    def object(self, schema, whole, value, path):
        schema = self.choose(self.flat(schema)[0], value)
        if schema.get("additionalProperties") is False:
            extra = copy_with({"w": whole}, ["w", *path, "surplus"],
                              lambda at, key: at.__setitem__(key, 1))["w"]
            yield Mutant(f"surplus in {pointer_of(path) or '/'}", json.dumps(extra),
                         pointer_of([*path, "surplus"]))
        for key in value:
            yield Mutant(f"twice {pointer_of([*path, key])}", twice(whole, [*path, key]), "?")
        for key, member in schema.get("properties", {}).items():
            if key in value:
                required = key in schema.get("required", [])
                yield from self.member(member, whole, [*path, key], value[key], required)

    def member(self, schema, whole, path, value, required):
        given = self.document.resolve(schema)
        flat, nullable = self.flat(schema)
        pointer = pointer_of(path)
        if required:
            yield Mutant(f"without {pointer}", json.dumps(copy_with(
                whole, path, lambda at, key: at.__delitem__(key))), pointer)
            if not nullable and "null" not in types_of(flat) and types_of(flat):
                yield self.put(whole, path, None, pointer)
        if "oneOf" not in flat:
            yield from self.wrong_types(flat, whole, path, pointer)
        yield from self.limits(flat, whole, path, pointer, value)
        if isinstance(value, dict) and given.get("additionalProperties") is not True:
            yield from self.object(schema, whole, value, path)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from self.object(flat["items"], whole, value[0], [*path, 0])

    def put(self, whole, path, value, pointer):
        text = json.dumps(value)
        return Mutant(f"{pointer_of(path)} = {text[:40]}", json.dumps(copy_with(
            whole, path, lambda at, key: at.__setitem__(key, value))), pointer)

    def wrong_types(self, schema, whole, path, pointer):
        good = types_of(schema)
        if not good:
            return
        for name in list(good):
            good = good | ALSO.get(name, set())
        for name, value in WRONG.items():
            if name not in good and name != "null":
                yield self.put(whole, path, value, pointer)

    def limits(self, schema, whole, path, pointer, value):
        put = lambda new, good: self.put(whole, path, new, None if good else pointer)  # noqa: E731
        for key, step in (("minimum", -1), ("maximum", 1)):
            if key in schema:
                yield put(schema[key], True)
                yield put(schema[key] + step, False)
                yield put(FAR * step * 1000, False)
        if "exclusiveMinimum" in schema:
            yield put(schema["exclusiveMinimum"], False)
        if "enum" in schema or "const" in schema:
            yield put("none-of-them", False)
        if "maxLength" in schema and schema["maxLength"] <= LONG and "pattern" not in schema:
            yield put("x" * schema["maxLength"], True)
            yield put("x" * (schema["maxLength"] + 1), False)
        if schema.get("minLength", 0) > 0:
            yield put("", False)
        if "pattern" in schema:
            for text in ("", "\u00e9 \n!", "-"):
                if not re.search(schema["pattern"], text):
                    yield put(text, False)
        if "maxItems" in schema and isinstance(value, list) and value:
            yield put(value * (schema["maxItems"] + 1), False)
        if "maxProperties" in schema:
            yield put({f"k{i}": "v" for i in range(schema["maxProperties"])}, True)
            yield put({f"k{i}": "v" for i in range(schema["maxProperties"] + 1)}, False)
        names = schema.get("propertyNames", {}).get("pattern")
        if names:
            yield put({"": "v"}, False)
            yield put({"bad name!": "v"}, False)
        inner = schema.get("additionalProperties")
        if names and isinstance(inner, dict):
            yield put({"K": 7}, False)
            yield put({"K": "v" * (inner["maxLength"] + 1)}, False)

    # --- query parameters ---

    def queries(self, parameter):
        """(value, good) of one query parameter; None is its name without a value."""
        schema, _ = self.flat(parameter["schema"])
        kind = types_of(schema)
        if "integer" in kind:
            yield from ((text, False) for text in ("", "x", "1.5", "+1", "0x1", " 1", "9" * 40))
            yield str(schema.get("minimum", 0) - 1), False
            yield str(schema["maximum"] + 1), False
            yield str(schema.get("minimum", 0)), True
        elif "boolean" in kind:
            yield from ((text, False) for text in ("", "1", "TRUE", "yes"))
            yield "true", True
        elif "enum" in schema:
            yield from ((text, False) for text in ("", "none-of-them"))
        if "maxLength" in schema:
            yield "x" * (schema["maxLength"] + 1), False


def twice(whole, path):
    """The text of `whole` in which the member at `path` comes a second time."""
    mark = "\u0001"
    marked = copy_with(whole, path, lambda at, key: at.__setitem__(key + mark, at[key]))
    return json.dumps(marked, ensure_ascii=True).replace("\\u0001", "")
