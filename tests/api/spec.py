"""The OpenAPI document as tests use it: what it allows, and whether a reply is what it says."""
import atexit
import tempfile

import jsonschema
from hypothesis import configuration
from hypothesis import strategies as st

from .events import parse

# It would leave a directory wherever the tests are started.
_scratch = tempfile.TemporaryDirectory(prefix="coto-test-hypothesis-")
atexit.register(_scratch.cleanup)
configuration.set_hypothesis_home_dir(_scratch.name)

# What every reply may have.
COMMON = {"Date", "Content-Type", "Content-Length", "Connection", "Transfer-Encoding", "Cache-Control",
          "X-Content-Type-Options", "Allow"}


class Spec:
    def __init__(self, document):
        self.document = document
        self.schemas = document["components"]["schemas"]
        self.resolver = jsonschema.RefResolver("", document)

    def operations(self):
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield method.upper(), path, operation

    def operation(self, wanted):
        return next(found for found in self.operations() if found[2]["operationId"] == wanted)

    def validate(self, schema, value):
        jsonschema.Draft202012Validator(schema, resolver=self.resolver, format_checker=jsonschema.FormatChecker()).validate(value)

    def is_valid(self, schema, value):
        try:
            self.validate(schema, value)
            return True
        except jsonschema.ValidationError:
            return False

    def check_reply(self, operation, reply):
        """Its status, headers, media type and body are among those of the document; every field is in a table."""
        assert str(reply.status) in operation["responses"], (operation["operationId"], reply)
        response = operation["responses"][str(reply.status)]
        content = response["content"]
        strange = {name.title() for name in reply.headers} - COMMON - {name.title() for name in response.get("headers", {})}
        assert not strange, (operation["operationId"], strange, reply)
        kind = reply.headers["Content-Type"].split(";")[0]
        assert kind in content, (operation["operationId"], reply)
        schema = content[kind].get("schema")
        if kind == "text/event-stream":
            self.check_events(schema, reply.body.decode())
        elif schema:
            self.validate(schema, reply.json)
            self.check_known(schema, reply.json)
        return kind

    def check_events(self, schema, body):
        """Each is one of those in the document, and its data is as that says."""
        events = [{"event": event, "data": data} for event, data in parse(body)]
        self.validate(schema, events)
        kinds = {one["properties"]["event"]["const"]: one for one in schema["items"]["oneOf"]}
        for event in events:
            self.check_known(kinds[event["event"]], event)

    def resolve(self, schema):
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def check_known(self, schema, value, where=""):
        schema = self.resolve(schema)
        if "anyOf" in schema:
            schema = self.resolve(next(one for one in schema["anyOf"] if self.is_valid(one, value)))
        if isinstance(value, dict) and "properties" in schema:
            assert not set(value) - set(schema["properties"]), f"{where}: not in the document"
            for key, item in value.items():
                self.check_known(schema["properties"][key], item, f"{where}.{key}")
        elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
            for key, item in value.items():
                self.check_known(schema["additionalProperties"], item, f"{where}.{key}")
        elif isinstance(value, list) and "items" in schema:
            for item in value:
                self.check_known(schema["items"], item, f"{where}[]")

    # ---- requests made up ----

    def values(self, schema, given=None):
        """Values that the schema allows; given: strategies for fields by name."""
        given = given or {}
        schema = self.resolve(schema)
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return st.one_of([self._of_kind(kind, schema, given) for kind in kinds] or [anything])

    def _of_kind(self, kind, schema, given):
        if kind == "object" and "properties" in schema:
            fields = {name: given[name] if name in given else self.values(inner, given) for name, inner in schema["properties"].items()}
            must = schema.get("required", [])
            return st.fixed_dictionaries({name: fields[name] for name in must},
                                         optional={name: fields[name] for name in fields if name not in must})
        if kind == "object":
            return st.dictionaries(text, self.values(schema["additionalProperties"], given), max_size=3)
        if kind == "array":
            return st.lists(self.values(schema["items"], given), max_size=3)
        if kind in ("number", "integer"):
            low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 10**6)
            return st.integers(low, high) if kind == "integer" else st.floats(low, high, exclude_min=True)
        return {"string": text.filter(lambda it: len(it) >= schema.get("minLength", 0) and ("not" not in schema or self.is_valid(schema, it))), "boolean": st.booleans(),
                "null": st.none()}[kind]


text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)
anything = st.recursive(st.none() | st.booleans() | st.integers(-10**9, 10**9) | st.floats(allow_nan=False, allow_infinity=False) | text,
                        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8)
