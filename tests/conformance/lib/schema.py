"""Every answer against the published document: status, headers, content type, schema."""
import importlib.machinery
import importlib.util
import pathlib
import re
import warnings

warnings.filterwarnings("ignore", category=DeprecationWarning)
import jsonschema  # noqa: E402

from . import streams  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Violation(Exception):
    """What of an answer breaks the published document."""


def load_document():
    loader = importlib.machinery.SourceFileLoader("to_json", str(ROOT / "openapi/to_json.py"))
    spec = importlib.util.spec_from_loader("to_json", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module.load(ROOT / "openapi/openapi.yaml")


class Document:
    def __init__(self):
        self.document = load_document()
        self.resolver = jsonschema.RefResolver("", self.document)
        self.paths = [(re.compile("^" + re.sub(r"\{[^}]+\}", "[^/]+", path) + "$"), path)
                      for path in sorted(self.document["paths"], key=lambda p: p.count("{"))]
        self.validators = {}
        self.schemas = {}

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            node = self.resolver.resolve(node["$ref"])[1]
        return node

    def validator(self, schema):
        key = id(schema)
        if key not in self.validators:
            self.schemas[key] = schema
            self.validators[key] = jsonschema.Draft202012Validator(
                schema, resolver=jsonschema.RefResolver("", self.document))
        return self.validators[key]

    def template(self, path):
        for pattern, template in self.paths:
            if pattern.match(path):
                return template
        return None

    def response(self, method, path, status):
        """The documented answer, or None with the reason."""
        template = self.template(path)
        if template is None:
            if status != 404:
                raise Violation(f"{status} on a path that is not documented")
            return self.resolve(self.document["components"]["responses"]["RouteNotFound"])
        operation = self.document["paths"][template].get(
            "get" if method == "HEAD" else method.lower())
        if operation is None:
            if status == 403:
                return self.resolve(self.document["components"]["responses"]["Forbidden"])
            if status != 405:
                raise Violation(f"{status} for a method that is not documented")
            return self.resolve(self.document["components"]["responses"]["MethodNotAllowed"])
        if str(status) not in operation["responses"]:
            raise Violation(f"{method} {template} documents no status {status}")
        return self.resolve(operation["responses"][str(status)])

    def check(self, method, path, answer):
        """Raises Violation. Returns the schema the body was checked against, or None."""
        documented = self.response(method, path, answer.status)
        self.check_headers(documented, answer)
        if method == "HEAD":
            return None
        content = documented.get("content")
        if not content:
            if answer.body:
                raise Violation(f"a body where none is documented: {answer.brief()}")
            return None
        media_type = answer.media_type()
        if media_type not in content:
            raise Violation(f"content type {media_type!r}, documented are {sorted(content)}")
        if media_type in streams.FORMATS:
            self.check_stream(content, answer)
            return None
        if not media_type.endswith("json") or answer.status == 206:
            return None
        try:
            value = answer.json()
        except ValueError as error:
            raise Violation(f"the body is not JSON: {error}") from error
        schema = content[media_type]["schema"]
        self.check_value(schema, value)
        replayed = answer.header("Idempotency-Replayed") is not None
        if media_type == "application/problem+json" and not replayed and \
                value["requestId"] != answer.header("X-Request-Id"):
            raise Violation("requestId differs from X-Request-Id")
        return schema

    def check_stream(self, content, answer):
        """Every event of both formats has the schema of a line."""
        schema = content["application/x-ndjson"]["schema"]
        try:
            events = answer.events()
        except ValueError as error:
            raise Violation(f"the stream is damaged: {error}") from error
        for event in events:
            self.check_value(schema, event)

    def check_headers(self, documented, answer):
        for name, header in (documented.get("headers") or {}).items():
            header = self.resolve(header)
            value = answer.header(name)
            if value is None:
                if header.get("required"):
                    raise Violation(f"header {name} is missing")
                continue
            if next(self.validator(header["schema"]).iter_errors(value), None):
                raise Violation(f"header {name} is {value!r}")
        if answer.header("X-Request-Id") is None:
            raise Violation("header X-Request-Id is missing")

    def check_value(self, schema, value):
        error = jsonschema.exceptions.best_match(self.validator(schema).iter_errors(value))
        if error:
            where = "/" + "/".join(str(part) for part in error.absolute_path)
            raise Violation(f"schema: {where}: {error.message[:400]}")
