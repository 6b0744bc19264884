"""GET /openapi.json is true: requests made up from it get replies that are as it says."""
import io
import json
import os
import tarfile

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import given as given_values
from hypothesis import strategies as st

from .events import parse
from .helpers import SOURCE
from .spec import Spec, anything, text

EXAMPLES = int(os.environ.get("COTO_SPEC_EXAMPLES", 40))
RELAXED = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                   suppress_health_check=list(HealthCheck))
# Programs that end soon; the document says nothing about what code means.
CODE = st.sampled_from(["print(2 + 2)", "import sys; sys.exit(3)", "", "raise SystemExit", "print('\\xff')", "1 +"])
SMALL = {
    "code": CODE, "language": st.sampled_from(["python", "sh", "nope"]), "profile": st.sampled_from(["default", "gemini", "nope"]),
    "timeout_seconds": st.floats(0.5, 300), "async": st.just(False), "callback_url": text,
    "resource_limits": st.dictionaries(st.sampled_from(["memory_mb", "pids", "cpus", "nofile", "output_limit", "noexec"]),
                                       st.integers(1, 500) | st.booleans() | text, max_size=2)}


@pytest.fixture(scope="module")
def spec(service):
    return Spec(service.get("/openapi.json").json)


def test_it_is_the_checked_in_document(spec):
    assert spec.document == json.loads((SOURCE / "docs/openapi.json").read_text())


def test_it_is_sound(spec):
    assert spec.document["openapi"].startswith("3.1")
    names = [operation["operationId"] for _, _, operation in spec.operations()]
    assert len(names) == len(set(names)) >= 20
    limit, before, sandbox = (item["schema"] for item in spec.operation("executions")[2]["parameters"])
    assert limit == {"type": "integer", "minimum": 1, "maximum": 1000} and before == sandbox == {"type": "string", "format": "uuid"}
    for _, path, operation in spec.operations():
        assert ("{id}" in path) == any(item["in"] == "path" for item in operation["parameters"])
        for response in operation["responses"].values():
            for media in response["content"].values():
                spec.resolve(media.get("schema", {}))


@pytest.fixture(scope="module")
def box(service):
    made = service.create(agent_id="spec")
    service.post(f"/api/v1/sandbox/{made['sandbox_id']}/execute", code="open('output/a','w').write('x')")
    return made["sandbox_id"]


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    return out.getvalue()


def test_every_operation_answers_as_it_says(service, spec):
    """Each with a request that is right; what it takes and returns is known from the document alone."""
    box = service.create()["sandbox_id"]
    execution = service.run("1").json["execution_id"]
    last = ["destroy", "revoke"]
    for method, path, operation in sorted(spec.operations(), key=lambda it: it[2]["operationId"] in last):
        name = operation["operationId"]
        body = None
        media = operation.get("requestBody", {}).get("content", {})
        if "application/json" in media:
            schema = spec.resolve(media["application/json"]["schema"])
            body = {key: {"code": "print(1)", "jti": "none"}.get(key, "x") for key in schema.get("required", [])}
        elif media:
            body = archive()
        query = "&".join(f"{item['name']}=a" for item in operation["parameters"] if item["in"] == "query" and item["required"])
        url = path.replace("{id}", execution if "executions" in path else box) + (f"?{query}" if query else "")
        reply = service.ask(method, url, body)
        spec.check_reply(operation, reply)
        assert reply.status < 500, (name, reply)
        if name not in ("get_file", "remove_file", "cancel", "revoke"):  # what these are about is not there
            assert str(reply.status) in operation["responses"], (name, reply)


def test_what_ends_something_answers_as_it_says(service, spec):
    """Cancel, revoke and remove_file, with something that is there."""
    made = service.create()
    box = made["sandbox_id"]
    service.ask("PUT", f"/api/v1/sandbox/{box}/files?path=a", b"x")
    execution = service.post("/api/v1/run", code="import time; time.sleep(60)", **{"async": True}).json["execution_id"]
    for name, where, query, body, status in [("cancel", execution, "", None, 202), ("remove_file", box, "?path=a", None, 200),
                                             ("revoke", "", "", {"token": made["access_token"]}, 200)]:
        method, path, operation = spec.operation(name)
        reply = service.ask(method, path.replace("{id}", where) + query, body)
        assert reply.status == status, (name, reply)
        spec.check_reply(operation, reply)
        assert str(status) in operation["responses"] and reply.json, name


@pytest.mark.parametrize("name, given, status", [
    ("extend", {"lifetime_seconds": st.integers(1, 3600), "idle_seconds": st.integers(1, 300)}, 200),
    ("revoke", {"token": text}, 400), ("run", {**SMALL, "async": st.just(True)}, 202)])
def test_more_requests_from_the_document(service, spec, name, given, status):
    method, path, operation = spec.operation(name)
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    box = service.create()["sandbox_id"]
    seen = set()

    @RELAXED
    @given_values(spec.values(schema, given))
    def check(body):
        body.pop("callback_url", None)
        reply = service.ask(method, path.replace("{id}", box), {**body, **({"async": True} if name == "run" else {})})
        spec.check_reply(operation, reply)
        assert reply.status < 500, (body, reply)
        seen.add(reply.status)
    check()
    assert status in seen, seen


@pytest.mark.parametrize("name", ["run", "create", "execute"])
def test_requests_from_the_document(service, spec, name, box):
    method, path, operation = spec.operation(name)
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    seen = set()

    @RELAXED
    @given(spec.values(schema, SMALL))
    def check(body):
        body.pop("callback_url", None)
        reply = service.ask(method, path.replace("{id}", box), body)
        spec.check_reply(operation, reply)
        assert reply.status < 500 or reply.status == 501, (body, reply)
        seen.add(reply.status)
        if reply.status == 201:
            service.delete(f"/api/v1/sandbox/{reply.json['sandbox_id']}")
    check()
    assert {"run": 200, "create": 201, "execute": 200}[name] in seen, seen


@pytest.mark.parametrize("name", ["run", "create", "execute"])
def test_what_the_document_forbids_is_refused(service, spec, name, box):
    method, path, operation = spec.operation(name)
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    must = {key: "x" for key in spec.resolve(schema)["required"]}
    refused = []

    @RELAXED
    @given(st.dictionaries(st.sampled_from(sorted(spec.resolve(schema)["properties"])) | text, anything, min_size=1, max_size=3))
    def check(fields):
        body = {**must, **fields}
        if spec.is_valid(schema, body):
            return
        reply = service.ask(method, path.replace("{id}", box), body)
        assert reply.status == 400, (body, reply)
        spec.check_reply(operation, reply)
        assert reply.json["field"] or "" in fields
        refused.append(body)
    check()
    assert len(refused) > 10, refused


def test_every_header_parameter_is_honoured(service, spec):
    """Each operation that names Idempotency-Key answers twice alike, and no other one does."""
    named = {operation["operationId"] for _, _, operation in spec.operations()
             if any(it["in"] == "header" and it["name"] == "Idempotency-Key" for it in operation["parameters"])}
    assert named == {"run", "create", "execute"}
    box = service.create()["sandbox_id"]
    for name in sorted(named):
        method, path, operation = spec.operation(name)
        body = {} if name == "create" else {"code": "import random; print(random.random())"}
        key = {"Idempotency-Key": f"spec-{name}-{os.urandom(8).hex()}"}
        first, second = (service.ask(method, path.replace("{id}", box), body, key) for _ in range(2))
        assert first.body == second.body and second.headers["Idempotent-Replayed"] == "true"
        spec.check_reply(operation, second)
        other = service.ask(method, path.replace("{id}", box), {**body, "agent_id": "other"}, key)
        assert other.status == 409
        spec.check_reply(operation, other)


@pytest.mark.parametrize("name,change,status", [
    ("run", {"token": "wrong"}, 401), ("run", {"body": {"code": "1", "isolation_level": "high"}}, 422),
    ("run", {"body": {"code": "1", "callback_url": "https://a.b/c", "async": True}}, 501),
    ("show", {}, 404), ("run", {"headers": {"Origin": "http://page"}}, 403), ("run", {"body": None, "headers": {"Content-Length": str(17 << 20)}}, 413),
    ("run", {"headers": {"X": "x" * 70000}}, 431), ("run", {"headers": {"Expect": "more"}}, 417)])
def test_refusals_are_in_the_document(service, spec, name, change, status):
    method, path, operation = spec.operation(name)
    options = {"body": {"code": "1"} if method == "POST" else None, **change}
    reply = service.ask(method, path.replace("{id}", "0" * 8 + "-0000" * 3 + "-" + "0" * 12), **options)
    assert reply.status == status, reply
    spec.check_reply(operation, reply)


def test_statuses_of_every_request_are_in_the_document(spec):
    for _, _, operation in spec.operations():
        assert {"405", "414", "417", "431", "505"} <= set(operation["responses"]), operation["operationId"]


def test_events_hold_the_result(service, spec):
    code = "import os, sys; os.write(1, b'\\xff'); print(1, file=sys.stderr); open('output/a', 'w').write('x')"
    box = service.create()["sandbox_id"]
    for name, result in (("run", "result"), ("execute", "execution")):
        method, path, operation = spec.operation(name)
        reply = service.ask(method, path.replace("{id}", box) + "?stream=1", {"code": code, "artifacts": True})
        assert spec.check_reply(operation, reply) == "text/event-stream"
        events = parse(reply.body.decode())
        assert {event for event, _ in events} == {"start", "stdout", "stderr", "artifact", "result"}
        spec.validate({"$ref": f"#/components/schemas/{result}"}, events[-1][1])
    service.delete(f"/api/v1/sandbox/{box}")


def test_control_other_events_are_not_in_the_document(spec):
    schema = spec.operation("run")[2]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    good = 'event: stdout\ndata: {"data":"x"}\n\n'
    spec.check_events(schema, good)
    for bad in (good.replace("stdout", "noise"), good.replace('"x"', "1"), good.replace('"data":', '"date":')):
        with pytest.raises(jsonschema.ValidationError):
            spec.check_events(schema, bad)


def test_codes_are_in_the_document_and_say_what_the_status_says(service, spec):
    codes = set(spec.schemas["error"]["properties"]["code"]["enum"])
    no = f"/api/v1/sandbox/{'0' * 8 + '-0000' * 3 + '-' + '0' * 12}"
    for method, path, more, status, code in [
            ("POST", "/api/v1/run", {"token": "wrong"}, 401, "unauthorized"), ("GET", "/nowhere", {}, 404, "not_found"),
            ("GET", no, {}, 404, "not_found"), ("GET", "/healthz", {"headers": {"Origin": "http://page"}}, 403, "forbidden"),
            ("PUT", "/healthz", {}, 405, "method_not_allowed"), ("BREW", "/healthz", {}, 405, "method_not_allowed"),
            ("POST", "/api/v1/run", {"body": {}}, 400, "usage")]:
        reply = service.ask(method, path, **more)
        assert (reply.status, reply.json["code"]) == (status, code), (path, reply)
        assert code in codes


@pytest.mark.parametrize("method, path, allowed", [
    ("DELETE", "/healthz", "GET, HEAD"), ("GET", "/api/v1/run", "POST"), ("POST", "/api/v1/sandbox/{id}/files", "PUT, GET, HEAD, DELETE"),
    ("PATCH", "/api/v1/executions/{id}", "GET, HEAD, DELETE")])
def test_what_is_possible_instead_is_said(service, method, path, allowed):
    reply = service.ask(method, path.replace("{id}", "0" * 8 + "-0000" * 3 + "-" + "0" * 12))
    assert (reply.status, reply.headers["Allow"]) == (405, allowed) and allowed in reply.json["message"]


@pytest.mark.parametrize("method, path, field, hint", [
    ("POST", "/api/v1/run?strem=1", "strem", "'stream'"), ("POST", "/api/v1/run?stream=yes", "stream", "stream=1"),
    ("POST", "/api/v1/run?stream=", "stream", "stream=1"), ("POST", "/api/v1/run?stream=1&stream=1", "stream", "stream=1"),
    ("GET", "/api/v1/executions?limt=1", "limt", "'limit'"), ("GET", "/api/v1/sandbox?a=b", "a", "openapi"),
    ("POST", "/api/v1/run?path=x", "path", "openapi"), ("POST", "/api/v1/run?" + "x" * 100, "x" * 63, "openapi")])
def test_parameters_that_are_not_in_the_document_are_refused(service, method, path, field, hint):
    reply = service.ask(method, path, {"code": "1"} if method == "POST" else None)
    assert (reply.status, reply.json["field"]) == (400, field) and hint in reply.json["remedy"], reply


@pytest.mark.parametrize("query, kind", [("?stream=1", "text/event-stream"), ("?stream=true", "text/event-stream"), ("?stream=0", "application/json"),
                                         ("?stream=false", "application/json"), ("?", "application/json"), ("?&", "application/json")])
def test_stream_in_words(service, query, kind):
    reply = service.ask("POST", f"/api/v1/run{query}", {"code": "1"})
    assert (reply.status, reply.headers["Content-Type"]) == (200, kind)


@pytest.mark.parametrize("accept, kind", [
    ("text/event-stream;q=0", "application/json"), ("application/json, text/event-stream ; q=0.000", "application/json"),
    ("application/json, text/event-streams", "application/json"), ("text/event-stream;q=0, */*", "application/json"),
    ("application/json;q=0, Text/Event-Stream;q=0.01", "text/event-stream"), ("text/event-stream; charset=utf-8", "text/event-stream")])
def test_accept_in_words(service, accept, kind):
    """q=0 means: anything else."""
    reply = service.ask("POST", "/api/v1/run", {"code": "1"}, {"Accept": accept})
    assert (reply.status, reply.headers["Content-Type"]) == (200, kind)


def test_a_probe_may_ask_as_it_likes(service):
    assert service.get("/healthz?from=balancer").status == service.get("/openapi.json?v=2").status == 200


@pytest.mark.parametrize("body, said", [
    ({"files": [{"path": "a", "content": "x" * 300_000}], "resource_limits": {"disk": "64k"}}, "raise resource_limits.disk (or resource_limits.inodes)"),
    ({"language": "c", "code": "int main(void) { return 0; }", "resource_limits": {"noexec": True}}, "use resource_limits.noexec: false, or an interpreted")])
def test_errors_name_fields_and_not_flags(service, body, said):
    reply = service.ask("POST", "/api/v1/run", {"code": "1", **body})
    assert reply.status in (400, 413, 422) and said in reply.json["remedy"] and "--" not in reply.json["remedy"] + reply.json["message"], reply


@pytest.mark.parametrize("method, path, body, status", [
    ("POST", "/api/v1/run", "hello", 400), ("POST", "/api/v1/run", "[1]", 400), ("POST", "/api/v1/run", None, 400), ("POST", "/api/v1/run", {"code": 1}, 400),
    ("GET", "/api/v1/sandbox/nope", None, 404), ("GET", "/api/v1/sandbox/{no}", None, 404), ("GET", "/api/v1/executions/{no}", None, 404),
    ("GET", "/api/v1/sandbox/{box}/files?path=nope", None, 404), ("DELETE", "/api/v1/sandbox/{box}/files?path=nope", None, 404),
    ("GET", "/api/v1/sandbox/{box}/archive?path=nope", None, 404), ("GET", "/api/v1/sandbox/{box}/archive?path=output/a", None, 400),
    ("PUT", "/api/v1/sandbox/{box}/files?path=output", "x", 400), ("PUT", "/api/v1/sandbox/{box}/files?path=output/a/b", "x", 400)])
def test_every_refusal_says_what_to_do(service, box, method, path, body, status):
    reply = service.ask(method, path.format(box=box, no="0" * 8 + "-0000" * 3 + "-" + "0" * 12), body)
    assert reply.status == status and reply.json["remedy"] and "--" not in reply.json["remedy"], reply
    if "path=" in path and "archive?path=output" not in path:
        assert reply.json["field"] == "path", reply


def test_async_as_it_says(service, spec):
    reply = service.post("/api/v1/run", code="print(1)", **{"async": True})
    spec.check_reply(spec.operation("run")[2], reply)
    assert reply.status == 202
    for _ in range(3):
        spec.check_reply(spec.operation("execution")[2], service.get(f"/api/v1/executions/{reply.json['execution_id']}"))


def test_a_stranger_gets_by_with_the_document_alone(service, spec):
    """Create, execute, stream, fetch an artifact, destroy: paths found by what the document says of them."""
    def call(name, box="", body=None, query=""):
        method, path, operation = spec.operation(name)
        reply = service.ask(method, path.replace("{id}", box) + query, body, token=True)
        spec.check_reply(operation, reply)
        assert reply.status < 300, reply
        return reply
    box = call("create", body={}).json["sandbox_id"]
    assert call("execute", box, {"code": "open('output/plot.txt','w').write('art'); print('hi')"}).json["output"] == "hi\n"
    assert b'"data":"hi' in call("execute", box, {"code": "print('hi')"}, "?stream=1").body
    [found] = call("artifacts", box).json["artifacts"]
    assert call("get_file", box, query=f"?path=output/{found['name']}").body == b"art"
    assert call("destroy", box).json["destroyed"]


LIMITS = json.loads((SOURCE / "docs/openapi.json").read_text())["components"]["schemas"]["limits"]["properties"]


@pytest.mark.parametrize("name", [name for name, schema in LIMITS.items() if schema["type"] != "boolean"])
def test_ranges_of_limits(service, name):
    """Both ends are taken, whatever becomes of the program then, and nothing beyond."""
    def ask(value):
        return service.post("/api/v1/run", code="1", language="sh", resource_limits={name: value})
    low, high = LIMITS[name]["minimum"], LIMITS[name].get("maximum", 10**6)
    assert ask(low).status != 400
    assert ask(low - (1 if isinstance(low, int) else low / 2)).json["field"] == f"resource_limits.{name}"
    if name != "ptys":  # none, unless the operator says so
        assert ask(high).status != 400 and ask(float(high)).status != 400
    if "maximum" in LIMITS[name]:
        assert ask(high + 1).json["field"] == f"resource_limits.{name}"


def test_remedies_name_levels_that_there_are(make_service, monkeypatch, tmp_path):
    """Those of the service, not of the command line."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    service = make_service("--high-isolation=docker")
    high = service.get("/api/v1/capabilities").json["high"]
    refused = service.post("/api/v1/run", code="1", isolation_level="high")
    assert (high["available"], refused.status) == (False, 422)
    for said in (high["remedy"], refused.json["remedy"]):
        assert "isolation_level standard" in said and "process" not in said and "--" not in said, said
