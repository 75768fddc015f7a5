"""Proves that the check of answers bites: each field of each sample deleted, renamed, retyped."""
import copy
import json

from .schema import Document, Violation

# Fields that may be absent by the document's own word: deleting them is no fault.
OPTIONAL = {"field", "phase", "causes", "checkpointId", "errorClass", "error", "enforcement"}
# Objects whose keys belong to the caller: they are retyped as a whole, never by key.
OPEN = {"metadata", "labels", "environment"}
# What a program or its client hands over: any value, or none.
OPAQUE = {"value", "argument"}
# What no idempotency key keeps, and what is refused before one is looked at.
NOT_REPLAYED = {"401", "403", "405", "413", "415", "429", "503", "507"}


def other_type(value):
    if isinstance(value, (dict, list)):
        return "retyped"
    return [{"retyped": True}]


def fields(value, path=()):
    """Paths of every field of every object within a sample."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield path + (key,)
            if key not in OPEN | OPAQUE:
                yield from fields(item, path + (key,))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from fields(item, path + (index,))


def parent_of(sample, path):
    for part in path[:-1]:
        sample = sample[part]
    return sample


def is_optional(sample, path):
    if path[-1] not in OPTIONAL:
        return False
    if path[-1] == "checkpointId":
        return len(path) > 1 and path[-2] == "termination"
    if path[-1] in ("errorClass", "error", "enforcement"):
        return path[-1] != "enforcement" or path[-2:-1] == ("sandbox",)
    return "requestId" in parent_of(sample, path)


def mutations(sample):
    for path in fields(sample):
        opaque = path[-1] in OPAQUE
        if not is_optional(sample, path) and not opaque:
            changed = copy.deepcopy(sample)
            del parent_of(changed, path)[path[-1]]
            yield "deleted", path, changed
        changed = copy.deepcopy(sample)
        parent = parent_of(changed, path)
        parent[path[-1] + "X"] = parent.pop(path[-1])
        yield "renamed", path, changed
        if opaque:
            continue
        changed = copy.deepcopy(sample)
        parent = parent_of(changed, path)
        parent[path[-1]] = other_type(parent[path[-1]])
        yield "retyped", path, changed


def accepts(document, schema, value):
    try:
        document.check_value(schema, value)
        return True
    except Violation:
        return False


def survivors(document, schema, sample):
    """How many mutations were tried, and those the schema wrongly accepts."""
    tried, wrong = 0, []
    for kind, path, changed in mutations(sample):
        tried += 1
        if accepts(document, schema, changed):
            wrong.append(f"{kind} /{'/'.join(map(str, path))}")
    return tried, wrong


def samples(document):
    """(name, schema, sample) of every example of every documented answer with a JSON body."""
    for path, item in document.document["paths"].items():
        for method, operation in item.items():
            if method == "parameters" or path == "/openapi.json":
                continue
            for status, response in operation["responses"].items():
                yield from response_samples(document, f"{method.upper()} {path} {status}",
                                            document.resolve(response))
    yield from response_samples(document, "unknown path", document.resolve(
        document.document["components"]["responses"]["RouteNotFound"]))


def response_samples(document, name, response):
    for media_type, content in (response.get("content") or {}).items():
        if not media_type.endswith("json"):
            continue
        examples = content.get("examples") or {"example": {"value": content.get("example")}}
        for key, example in examples.items():
            value = document.resolve(example)["value"]
            if value is None:
                raise Violation(f"{name} has no example")
            yield f"{name} ({key})", content["schema"], value


def idempotency(document):
    """What of the calls that take an Idempotency-Key is not documented, as texts."""
    for path, item in document.document["paths"].items():
        for method in {"post", "put"} & set(item):
            operation = item[method]
            name = f"{method.upper()} {path}"
            taken = [document.resolve(node)["name"] for node in operation.get("parameters", [])]
            if "Idempotency-Key" not in taken:
                yield f"{name}: does not take Idempotency-Key"
            if "507" not in operation["responses"]:
                yield f"{name}: no 507"
            conflict = json.dumps(document.resolve(operation["responses"].get("409", {})))
            if "IDEMPOTENCY_CONFLICT" not in conflict:
                yield f"{name}: no IDEMPOTENCY_CONFLICT"
            for status, node in operation["responses"].items():
                kept = status not in NOT_REPLAYED
                headers = document.resolve(node).get("headers", {})
                if kept and "Idempotency-Replayed" not in headers:
                    yield f"{name} {status}: no Idempotency-Replayed"


def check():
    """How many mutations were refused, and what went wrong, as texts."""
    document = Document()
    passed, problems = 0, list(idempotency(document))
    for name, schema, sample in samples(document):
        try:
            document.check_value(schema, sample)
        except Violation as violation:
            problems.append(f"{name}: {violation}")
            continue
        tried, wrong = survivors(document, schema, sample)
        passed += tried - len(wrong)
        problems += [f"{name}: {text} is accepted" for text in wrong]
    return passed, problems


def run():
    passed, problems = check()
    for text in problems:
        print(f"FAIL {text}")
    print(f"{passed} passed, {len(problems)} failed")
    return 1 if problems else 0
