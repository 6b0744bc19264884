"""What is refused is named as it was sent, with what is allowed here or what to do instead."""
import gzip

import pytest

from .helpers import Service


@pytest.fixture(scope="module")
def service():
    with Service("--high-isolation=none", "--max-memory=1g", "--max-pids=100", "--max-cpus=3") as it:
        yield it


def refused(reply, status, *words):
    assert reply.status == status, reply
    text = f"{reply.json['message']} / {reply.json['remedy']}"
    assert all(word in text for word in words), reply


@pytest.mark.parametrize("name, value, words", [
    ("memory_mb", "256m", ("'256m'", "a number of MiB, 4 to 1024")),
    ("memory_mb", 0.5, ("'0.5'", "4 to 1024")),
    ("memory_mb", -1, ("'-1'", "4 to 1024")),
    ("disk_mb", "lots", ("'lots'", "a number of MiB, 0.0625 to 8192")),
    ("memory", "lots", ("'lots'", "4m to 1g")),
    ("memory", 64, ("'64'", "4m to 1g", "a number alone is bytes")),
    ("pids", "many", ("'many'", "1 to 100")),
    ("cpu", "x", ("'x'", "0.01 to 3")),
    ("memory", "9" * 100, ("'" + "9" * 60 + "...'",)),
])
def test_a_limit(service, name, value, words):
    reply = service.post("/api/v1/run", code="1", resource_limits={name: value})
    refused(reply, 400, *words)
    assert reply.json["field"] == f"resource_limits.{name}" and "none" not in reply.json["message"], reply


def test_a_number_of_megabytes_may_be_a_text(service):
    assert service.post("/api/v1/run", code="1", resource_limits={"memory_mb": "64"}).status == 200


def test_a_limit_beside_the_limits(service):
    for name in ("memory_mb", "pids", "cpu"):
        refused(service.post("/api/v1/run", code="1", **{name: 5}), 400, f"{name}: no such field", f'{{"resource_limits": {{"{name}": ...}}}}')


def test_an_id_in_capitals(service):
    """A UUID is one either way."""
    box = service.create()["sandbox_id"]
    assert service.post(f"/api/v1/sandbox/{box.upper()}/execute", code="1").status == 200
    assert service.get(f"/api/v1/sandbox/{box.upper()}").json["sandbox_id"] == box
    rows, = (service.get(f"/api/v1/executions?sandbox={box.upper()}").json["executions"],)
    assert len(rows) == 1 and service.get(f"/api/v1/executions/{rows[0]['execution_id'].upper()}").json == rows[0]
    for bad in ("x" * 36, box[:-1] + "g", box.replace("-", "0")):
        refused(service.get(f"/api/v1/executions?sandbox={bad}"), 400, "must be an id")


def test_a_language(service):
    refused(service.post("/api/v1/run", code="1", language="klingon"), 400, "'klingon'", "python, node, sh")


def test_a_field_of_another_request(service):
    refused(service.post("/api/v1/sandbox/create", code="1"), 400, "execute", "/api/v1/run")
    url = f"/api/v1/sandbox/{service.create()['sandbox_id']}/execute"
    refused(service.post(url, code="1", resource_limits={}), 400, "/api/v1/sandbox/create")
    refused(service.post(url, code="1", colt=True), 400, "did you mean 'cold'?")


def test_one_of_many(service):
    """The element that is wrong, not the list it is in."""
    for field, body in (("env.A", {"env": {"B": "", "A": 1}}), ("env.A=B", {"env": {"A=B": ""}}), ("args[1]", {"args": ["", 1]})):
        reply = service.post("/api/v1/run", code="1", **body)
        assert (reply.status, reply.json["field"]) == (400, field) and reply.json["remedy"], reply
    for name, words in (("memori", "did you mean 'memory'?"), ("timeout", "timeout_seconds"), ("env", "beside resource_limits"), ("zzz", "GET /openapi.json")):
        refused(service.post("/api/v1/run", code="1", resource_limits={name: 1}), 400, "no such limit", words)


def test_no_token_and_one_that_is_not_good(service):
    """Why it is not good is nobody's business; that there was one is known to who sent it."""
    refused(service.get("/api/v1/sandbox", headers={"Authorization": "Basic x"}), 401, "no valid token", "send Authorization: Bearer")
    refused(service.get("/api/v1/sandbox", token="nonsense"), 401, "no valid token", "the one that was sent is not good")


def test_an_execution_that_is_not_there(service):
    refused(service.get("/api/v1/executions?before=" + "0" * 8 + "-0000-4000-8000-" + "0" * 12), 400, "no such execution", "`next`")


def test_the_end_of_a_sandbox_by_its_own_token(service):
    made = service.create()
    url = f"/api/v1/sandbox/{made['sandbox_id']}"
    refused(service.delete(url, token=made["access_token"]), 403, "cannot destroy it", "service token")
    refused(service.post(f"{url}/extend", token=made["access_token"]), 403, "nor say how long it lasts", "service token")
    refused(service.get("/api/v1/sandbox", token=made["access_token"]), 403, "that sandbox only", "service token")
    assert service.delete(url).status == 200


def test_a_body_that_is_too_large(service):
    refused(service.ask("POST", "/api/v1/run", headers={"Content-Length": str(17 << 20)}), 413, f"{16 << 20} bytes at most")


@pytest.mark.parametrize("what", ["files?path=x", "archive"])
def test_a_form(service, what):
    """Its envelope is not stored."""
    url = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nhello\r\n--x--\r\n'
    reply = service.ask("PUT", f"{url}/{what}", body, headers={"Content-Type": "Multipart/form-data; boundary=x"})
    refused(reply, 400, "not a form", "curl -T FILE")
    assert service.get(f"{url}/files?path=x").status == 404


@pytest.mark.parametrize("path", ["/api/v1//sandbox", "/../x", "/api/v1/sandbox/./x", '/"', "/api/v1/sandbox/%22"])
def test_a_path_that_cannot_be(service, path):
    """In an object, whatever there is to be quoted in it."""
    reply = service.get(path)
    assert reply.status in (400, 404) and reply.json["message"] and reply.json["remedy"], reply


@pytest.mark.parametrize("method, path", [("POST", "/api/v1/run"), ("PUT", "/api/v1/sandbox/{}/files?path=x"), ("PUT", "/api/v1/sandbox/{}/archive")])
def test_a_compressed_body(service, method, path):
    """It would be no JSON, or stored as it is; `identity` is none."""
    path = path.format(service.create()["sandbox_id"])
    body = b'{"code": "1"}' if method == "POST" else bytes(1024)
    refused(service.ask(method, path, gzip.compress(body), headers={"Content-Encoding": "gzip"}), 415, "'gzip'", "as it is")
    assert service.ask(method, path, body, headers={"Content-Encoding": "Identity"}).status in (200, 201)


@pytest.mark.parametrize("body, field, words", [
    ({"env": {"": "1"}}, "env", "no name"),
    ({"input": 1, "stdin": "1"}, "input", "stdin says what standard input is, too"),
    ({"files": [{"path": "../a", "content": ""}]}, "files[0].path", "files[0].path: "),
    ({"files": [{"path": "a", "content": ""}, {"path": "/workspace/a", "content": ""}]}, "files[1].path", "another of the files"),
    ({"agent_id": "x" * 121}, "agent_id", "120")])
def test_in_words_of_their_own(service, body, field, words):
    reply = service.post("/api/v1/run", code="1", **body)
    assert (reply.status, reply.json["field"]) == (400, field) and words in reply.json["message"] and reply.json["remedy"], reply


@pytest.mark.parametrize("text", ["not json", " [1]", '"code"', "1", " \n", "\ufeff{}"])
def test_what_is_no_object(service, text):
    refused(service.ask("POST", "/api/v1/run", text.encode()), 400, "must be a JSON object, { ... }", "send one JSON object")


def test_what_is_required(service):
    """By names; where one cannot be had nothing runs, and it is not told afterwards."""
    down = [name for name, wall in service.run("1").json["walls"].items() if not wall["up"]]
    up = [name for name, wall in service.run("1").json["walls"].items() if wall["up"]]
    assert service.run("print(1)", require=up).json["stdout"] == "1\n", "control"
    assert service.create(require=["seccomp"])
    for i, name in enumerate(down[:2]):
        reply = service.run("print(1)", require=[*up, name])
        assert reply.status in (400, 412, 422) and name in reply.json["message"] and "--" not in reply.json["message"], reply
    reply = service.run("1", require=["seccomp", "nonsense"])
    assert (reply.status, reply.json["field"]) == (400, "require[1]") and "'nonsense'" in reply.json["message"], reply


def test_too_deep_has_a_remedy(service):
    reply = service.ask("POST", "/api/v1/run", '{"code":"1","input":' + "[" * 70 + "]" * 70 + "}")
    assert reply.status == 400 and "64 deep" in reply.json["message"] and "stdin" in reply.json["remedy"], reply
