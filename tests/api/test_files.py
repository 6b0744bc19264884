"""Files of a sandbox: up, down, listed, removed, as archives, as artifacts; and what strangers
make of that (the AR rows of the threats, at the API's door)."""
import base64
import hashlib
import io
import os
import re
import tarfile
import threading
import time

import pytest

from cli.helpers import status_of
from server.helpers import Client

from .helpers import wait_until


MIB = 1 << 20


class Box:
    """A sandbox of the service, and short words for what is done with it."""

    def __init__(self, service, **body):
        self.service = service
        self.created = service.create(**body)
        self.url = f"/api/v1/sandbox/{self.created['sandbox_id']}"

    def put(self, path, data=b"x", where="files", **options):
        return self.service.ask("PUT", f"{self.url}/{where}?path={path}", data, **options)

    def get(self, path=None, where="files"):
        return self.service.get(f"{self.url}/{where}" + (f"?path={path}" if path is not None else ""))

    def remove(self, path):
        return self.service.delete(f"{self.url}/files?path={path}")

    def execute(self, code, **more):
        reply = self.service.post(f"{self.url}/execute", code=code, **more)
        assert reply.status == 200, reply
        return reply.json

    def python(self, code):
        result = self.execute(code)
        assert result["verdict"] == "ok", result["stderr"]
        return result["output"]

    def unpack(self, archive, path=None):
        return self.service.ask("PUT", f"{self.url}/archive" + (f"?path={path}" if path else ""), archive)


@pytest.fixture(scope="module")
def box(service):
    yield Box(service)


@pytest.fixture
def fresh(service):
    it = Box(service)
    yield it
    service.delete(it.url)


# ---- one file ----

@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 5_000_000])
def test_up_and_down_again(box, size):
    data = os.urandom(size)
    reply = box.put("dir/file", data)
    assert (reply.status, reply.json["bytes"]) == (200, size)
    assert box.python(f"import hashlib; print(hashlib.sha256(open('dir/file','rb').read()).hexdigest())") \
        == hashlib.sha256(data).hexdigest() + "\n"
    reply = box.get("dir/file")
    assert (reply.status, reply.body) == (200, data)
    assert reply.headers["Content-Length"] == str(size)
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Content-Disposition"] == "attachment"


def test_a_chunked_upload(box):
    def pieces():
        for _ in range(50):
            yield b"y" * 10_000
    assert box.put("chunked", pieces()).json["bytes"] == 500_000


def test_a_file_is_replaced_and_the_program_owns_it(box):
    box.put("own", b"first, longer")
    assert box.put("own", b"second").json["path"] == "/workspace/own", "as the document says: absolute"
    assert box.python("open('own','a').write('!'); print(open('own').read())") == "second!\n"


def test_absolute_paths_in_the_workspace_and_tmp(box):
    for path in ("/workspace/abs", "/tmp/abs"):
        assert box.put(path, b"z").json["path"] == path
        assert box.python(f"print(open('{path}').read())") == "z\n"
        assert box.get(path).body == b"z"


def test_a_directory_is_listed(fresh):
    fresh.python("import os; os.mkdir('d'); open('d/f','w').write('abc'); os.symlink('f','d/l'); os.mkfifo('d/p');"
                 "os.mkdir('d/s'); open(b'd/\\xff','w'); os.chmod('d/f', 0o640)")
    found = {entry["name"]: entry for entry in fresh.get("d").json["entries"]}
    assert {name: entry["type"] for name, entry in found.items()} == {
        "f": "file", "l": "link", "p": "other", "s": "directory", "\ufffd": "file"}
    assert (found["f"]["bytes"], found["f"]["mode"]) == (3, "0640")
    assert base64.b64decode(found["\ufffd"]["name_base64"]) == b"\xff"
    assert {entry["name"] for entry in fresh.get().json["entries"]} >= {"d", "output"}


def test_a_large_directory_is_cut(fresh):
    fresh.python("import os; os.mkdir('d'); [open(f'd/{i}','w').close() for i in range(10_050)]")
    listing = fresh.get("d").json
    assert len(listing["entries"]) == 10_000 and listing["truncated"]


def test_remove(fresh):
    fresh.put("a/b/c")
    fresh.python("import os; os.symlink('/workspace/a', 'link')")
    assert fresh.remove("link").status == 200
    assert fresh.get("a/b/c").status == 200, "a link is removed, not what it points to"
    assert fresh.remove("a").json["removed"]
    assert fresh.get("a/b/c").status == fresh.get("a").status == fresh.remove("a").status == 404


GROWS = """
import os
os.mkdir('tree')
at = os.open('tree', os.O_RDONLY)
for n in range(4):
    if os.fork() == 0:
        i = n * 900
        while True:
            i = (i + 1) % 4000
            for name in (f'{i}', f'{i}/a', f'{i}/a/b', f'{i}/a/b/c'):
                try:
                    os.mkdir(name, dir_fd=at)
                except OSError:
                    pass
while len(os.listdir('tree')) < 3900:
    pass
"""


def test_what_grows_while_it_is_removed_costs_no_sandbox(fresh):
    """Init went on removing for ever, and was given up with all that was in the sandbox."""
    assert fresh.execute(GROWS)["verdict"] == "ok"
    assert fresh.remove("tree").status in (200, 400, 404)
    assert fresh.execute("print(1)")["output"] == "1\n"


@pytest.mark.parametrize("path", [
    "", "..", ".", "../x", "a/../b", "a/..", "./a", "a//b", "a/", "//a", "/", "/etc/passwd", "/workspace", "/workspacex",
    "/workspace/../etc/passwd", "/proc/self/environ", "/tmp", "/tmp/../etc", "x" * 256, "a/" * 2100 + "a", "%00", "a%00b",
    "%2e%2e/x", "a%2f..%2fb", "%ff%zz", "a&path=b"])
def test_bad_paths_are_refused(box, path):
    is_place = path in ("", ".", "/workspace", "/tmp")  # which can be looked at
    for reply in (box.put(path), box.remove(path), *([] if is_place else [box.get(path)])):
        assert reply.status in (400, 414), reply
        assert reply.json["field"] == "path" or reply.status == 414 or reply.json["code"] == "bad_request", reply


@pytest.mark.parametrize("query", ["", "?path=", "?path=.", "?path=./", "?path=/workspace", "?path=/workspace/"])
def test_the_whole_workspace(fresh, query):
    fresh.put("a/b", b"deep")
    fresh.put("top", b"here")
    reply = fresh.service.get(f"{fresh.url}/archive{query}")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/x-tar"), reply
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        assert {it.name: tar.extractfile(it).read() for it in tar} == {"a/b": b"deep", "top": b"here"}
    listing = fresh.service.get(f"{fresh.url}/files{query}").json
    assert {"a", "top"} <= {entry["name"] for entry in listing["entries"]}
    again = fresh.service.ask("PUT", f"{fresh.url}/archive{query}", reply.body)
    assert again.status == 200 and again.json["files"] == 2, again


def test_a_path_is_needed(box):
    assert box.service.ask("PUT", f"{box.url}/files", b"x").status == 400
    assert box.service.delete(f"{box.url}/files").status == 400


def test_links_are_not_followed(fresh):
    fresh.python("import os; os.mkdir('real'); os.symlink('/etc', 'dir'); os.symlink('/etc/passwd', 'file');"
                 "os.symlink('real', 'inner'); os.symlink('/proc/1/root', 'magic'); os.symlink('/proc/self/fd/3', 'fd')")
    for path in ("file", "dir/passwd", "inner/x", "magic/etc/passwd", "fd"):
        for reply in (fresh.get(path), fresh.put(path)):
            assert reply.status in (400, 404) and reply.json["field"] == "path" and reply.json["remedy"], (path, reply)
            assert reply.status == 404 or "is a link, or behind one" in reply.json["message"], reply
    for path in ("dir", "inner", "magic"):
        assert fresh.get(path, where="archive").status in (400, 404), path
    assert fresh.put("real/x").status == 200, "control: without a link it is possible"


def test_neither_fifo_nor_socket_hangs(fresh):
    fresh.python("import os, socket; os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('sock')")
    for path in ("fifo", "sock"):
        began = time.monotonic()
        for reply in (fresh.get(path), fresh.put(path)):
            assert (reply.status, reply.json["field"]) == (400, "path") and reply.json["remedy"], reply
        assert time.monotonic() - began < 10


def test_a_link_swapped_in_never_shows_a_host_byte(fresh):
    """AR-03: names change while they are read; by a thread of an interpreter that stays."""
    fresh.put("plain", b"inside")
    fresh.python("""
import os, threading
def swap():
    while True:
        try:
            os.symlink('/etc/passwd', 't'); os.rename('t', 'flip'); open('u','w').write('inside'); os.rename('u', 'flip')
        except OSError: pass
threading.Thread(target=swap, daemon=True).start()""")
    bodies = set()
    for _ in range(150):
        reply = fresh.get("flip")
        bodies.add((reply.status, reply.body if reply.status == 200 else b""))
        archive = fresh.get(where="archive")
        assert b"root:" not in archive.body and b"root:" not in reply.body
    assert bodies <= {(200, b"inside"), (200, b""), (400, b""), (404, b"")}, bodies


def test_a_sparse_file_larger_than_the_disk_is_refused(fresh):
    fresh.python("f = open('huge', 'wb'); f.truncate(1 << 40)")
    reply = fresh.get("huge")
    assert reply.status == 400 and "larger" in reply.json["message"]


def test_more_than_the_disk_holds(service):
    box = Box(service, resource_limits={"disk_mb": 2})
    assert box.put("fits", b"x" * 1_000_000).status == 200
    assert box.put("big", b"x" * 4_000_000).status == 413
    assert box.get("big").status == 404, "half a file is no file"
    assert box.python("print(1)") == "1\n", "the sandbox is still of use"
    service.delete(box.url)


def test_more_than_its_memory_holds(service):
    """It ends the sandbox, whose files lie in its memory; that was an error of coto's."""
    held = "cgroup" in (service.get("/api/v1/capabilities").json["walls"]["memory"]["mechanism"] or "")
    small = {"resource_limits": {"memory_mb": 8}}
    made = service.post("/api/v1/sandbox/create", files=[{"path": "big", "content": "x" * 12_000_000}], **small)
    box = Box(service, **small)
    put = [box.put(f"f{i}", b"x" * 2_000_000) for i in range(6) if service.get(box.url).status == 200][-1]
    if not held:  # its disk is larger
        assert (made.status, put.status) == (201, 200)
    else:
        assert (made.status, put.status) == (400, 413), (made, put)
        assert all("memory limit" in reply.json["message"] for reply in (made, put)), (made, put)


def test_an_upload_that_breaks_off_leaves_no_file(fresh):
    service = fresh.service
    with Client(_raw(service)) as client:
        client.send(f"PUT {fresh.url}/files?path=half HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                    f"{fresh.created['access_token']}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"x" * 300_000)
        wait_until(lambda: service.get(fresh.url).json["state"] == "busy", "the upload")
    wait_until(lambda: service.get(fresh.url).json["state"] == "idle", "its end")
    assert fresh.get("half").status == 404


def test_a_refused_upload_leaves_what_has_the_name(fresh):
    fresh.put("d/keep")
    assert fresh.put("d").status == 400
    assert fresh.get("d/keep").status == 200


def _raw(service):
    connection = service.connect(tcp=True)
    connection.connect()
    return connection.sock


def test_a_download_nobody_reads_gives_the_sandbox_back(fresh):
    fresh.python("open('big','wb').write(bytes(50_000_000))")
    service = fresh.service
    with Client(_raw(service)) as client:
        client.send(f"GET {fresh.url}/files?path=big HTTP/1.1\r\nHost: localhost\r\n"
                    f"Authorization: Bearer {fresh.created['access_token']}\r\n\r\n".encode())
        wait_until(lambda: service.get(fresh.url).json["state"] == "busy", "the download")
        assert fresh.put("other").status == 409
    wait_until(lambda: service.get(fresh.url).json["state"] == "idle", "its end")
    assert fresh.put("other").status == 200


def test_a_file_that_changes_while_it_is_read(fresh):
    """AR-13: never more bytes than were promised, never fewer without a sign of it."""
    fresh.python("""
import os, threading
f = open('f', 'wb'); f.write(b'x' * 3_000_000); f.flush()
def change():
    while True:
        os.truncate('f', 100); os.truncate('f', 3_000_000)
threading.Thread(target=change, daemon=True).start()""")
    for _ in range(20):
        try:
            reply = fresh.get("f")
            assert len(reply.body) == int(reply.headers["Content-Length"])
        except Exception as broken:  # http.client says IncompleteRead
            assert "IncompleteRead" in repr(broken)


# ---- archives ----

def member(name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def archive(*members, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_an_archive_up_and_down(fresh, form):
    long = "/".join(["long" * 12] * 5) if form != tarfile.USTAR_FORMAT else "x" * 90 + "/" + "y" * 90
    sent = {"a": b"1", "d/b": b"2" * 5000, long: b"3", "empty": b""}
    reply = fresh.unpack(archive(member("d", type=tarfile.DIRTYPE), member("e", type=tarfile.DIRTYPE),
                                 *(member(name, data) for name, data in sent.items()), form=form), "in")
    assert reply.json == {"files": 4, "directories": 2, "bytes": 5002}
    assert fresh.get("in/e").json["entries"] == []
    reply = fresh.get("in", where="archive")
    assert reply.headers["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        assert {info.name: tar.extractfile(info).read() for info in tar} == sent


def test_modes_are_neutral(fresh):
    fresh.unpack(archive(member("run", b"#!", mode=0o6711), member("data", b"", mode=0o4666), member("none", b"", mode=0)))
    modes = {entry["name"]: entry["mode"] for entry in fresh.get().json["entries"]}
    assert (modes["run"], modes["data"], modes["none"]) == ("0755", "0644", "0644")


def test_names_as_tar_writes_them(fresh):
    assert fresh.unpack(archive(member(".", type=tarfile.DIRTYPE), member("./a/b", b"x"))).status == 200
    assert fresh.get("a/b").body == b"x"


HOSTILE = {
    "parent": member("../out", b"x"),
    "parent in the middle": member("a/../../out", b"x"),
    "absolute": member("/tmp/out", b"x"),
    "symlink": member("l", type=tarfile.SYMTYPE, linkname="/etc"),
    "hard link": member("l", type=tarfile.LNKTYPE, linkname="ok"),
    "character device": member("l", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    "block device": member("l", type=tarfile.BLKTYPE),
    "fifo": member("l", type=tarfile.FIFOTYPE),
    "empty name in it": member("a//b", b"x"),
    "long name": member("x" * 300, b"x"),
    "parent directory": member("..", type=tarfile.DIRTYPE),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_members_are_refused(fresh, name):
    reply = fresh.unpack(archive(member("ok", b"1"), HOSTILE[name]))
    assert reply.status == 400 and "archive" in reply.json["message"] and reply.json["remedy"], reply
    if "member 2" in reply.json["message"]:
        assert re.search(r"member 2, '.+', is a link", reply.json["message"]), reply
    assert {entry["name"] for entry in fresh.get().json["entries"]} <= {"ok", "output"}
    assert fresh.get("/tmp/out").status == 404
    assert fresh.python("print(1)") == "1\n"


def test_a_link_inside_does_not_lead_an_archive_out(fresh):
    fresh.python("import os; os.symlink('/tmp', 'd')")
    assert fresh.unpack(archive(member("d/x", b"1"))).status == 400
    assert fresh.get("/tmp/x").status == 404


def spoiled(at, value):
    data = bytearray(archive(member("a", b"abc")))
    data[at:at + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize("data", [
    b"", b"no archive", b"\x1f\x8b\x08" + bytes(600), bytes(range(256)) * 8, archive(member("a", b"abc"))[:700],
    archive(member("a", b"abc"))[:1024], spoiled(0, b"b"), spoiled(124, b"99999999999"), spoiled(257, b"tsu"),
    archive(member("a", b"abc"))[:1024] + bytes(512) + archive(member("b", b"abc")),
], ids=["empty", "text", "gzip", "bytes", "cut in a header", "no end", "wrong sum", "wrong size", "no magic", "behind its end"])
def test_damaged_archives_are_refused(box, data):
    assert box.unpack(data).status == 400


def test_too_many_members_and_too_many_bytes(fresh):
    many = archive(*(member(f"m/{i}") for i in range(10_001)))
    assert "too many" in fresh.unpack(many).json["message"]
    info, _ = member("big")
    info.size = 1 << 40
    head = info.tobuf(tarfile.GNU_FORMAT)
    began = time.monotonic()
    reply = fresh.unpack(head + bytes(10240))
    assert reply.status == 413 and "larger" in reply.json["message"] and "resource_limits.disk" in reply.json["remedy"], reply
    assert time.monotonic() - began < 5, "refused by what its header says"


# ---- files in requests, artifacts ----

def test_files_in_requests(service):
    files = [{"path": "a/text", "content": "höh"}, {"path": "bin", "content_base64": base64.b64encode(b"\xff\0").decode()},
             {"path": "run.sh", "content": "#!/bin/sh\necho ran", "executable": True}]
    code = ("import subprocess; print(open('a/text').read(), open('bin','rb').read(), "
            "subprocess.run(['./run.sh'], capture_output=True).stdout)")
    wanted = "höh b'\\xff\\x00' b'ran\\n'\n"
    assert service.run(code, files=files).json["stdout"] == wanted
    box = Box(service, files=files)
    assert box.python(code) == wanted
    assert box.execute("print(open('more').read())", files=[{"path": "more", "content": "!"}])["output"] == "!\n"
    service.delete(box.url)


@pytest.mark.parametrize("file, field", [
    ({"path": "../x", "content": ""}, "files[0].path"), ({"path": "", "content": ""}, "files[0].path"),
    ({"content": ""}, "files[0].path"), ({"path": "x"}, "files[0]"),
    ({"path": "x", "content": "", "content_base64": ""}, "files[0]"), ({"path": "x", "content_base64": "a"}, "files[0]"),
    ({"path": "x", "content_base64": "YR=="}, "files[0]"), ({"path": "main.py", "content": ""}, "files[0].path"),
    ({"path": "x", "content": "", "mode": 1}, "files[0].mode"), ("x", "files[0]")])
def test_bad_files_are_refused(service, file, field):
    reply = service.run("1", files=[file])
    assert (reply.status, reply.json["field"]) == (400, field), reply


@pytest.mark.parametrize("paths", [("a/b", "a"), ("a", "a/b"), ("output",), ("main.py/x",), ("/tmp/a/b/c", "/tmp/a/b")])
def test_files_that_cannot_be_together_are_refused(service, paths):
    files = [{"path": path, "content": ""} for path in paths]
    reply = service.run("1", files=files)
    assert (reply.status, reply.json["field"]) == (400, f"files[{len(paths) - 1}].path") and "name" in reply.json["remedy"], reply
    assert service.run("1", files=[{"path": "a/b", "content": ""}, {"path": "a/bc", "content": ""}, {"path": "a.b", "content": ""}]).status == 200


LEAVES = """
import os
os.makedirs('output/d', exist_ok=True)
open('output/d/plot.svg', 'w').write('<svg/>')
open('output/raw', 'wb').write(b'\\xff\\0')
os.symlink('/etc/passwd', 'output/link')
os.mkfifo('output/fifo')
"""


def test_artifacts_in_the_reply(service):
    result = service.run(LEAVES, artifacts=True).json
    found = {item["name"]: item for item in result["artifacts"]}
    assert found["d/plot.svg"]["content"] == "<svg/>" and found["d/plot.svg"]["type"] == "image/svg+xml"
    assert base64.b64decode(found["raw"]["content_base64"]) == b"\xff\0"
    assert found["raw"]["sha256"] == hashlib.sha256(b"\xff\0").hexdigest()
    assert len(found) == 2 and result["artifacts_skipped"] == 2
    assert service.run(LEAVES).json["artifacts"] == [], "only when asked for"


def test_artifacts_of_a_sandbox(fresh):
    assert fresh.get(where="artifacts").json == {"artifacts": [], "artifacts_skipped": 0}
    assert "artifacts" not in fresh.execute("1")
    assert len(fresh.execute(LEAVES, artifacts=True)["artifacts"]) == 2
    listed = fresh.get(where="artifacts").json
    assert {item["name"] for item in listed["artifacts"]} == {"d/plot.svg", "raw"} and listed["artifacts_skipped"] == 2
    assert fresh.get("output/d/plot.svg").body == b"<svg/>"
    assert fresh.execute("x = 1; print(x)", artifacts=True)["output"] == "1\n"


# Names of 3,900 bytes, as many as take twelve megabytes.
LONG_NAMES = """
import os
at = os.open('output', os.O_RDONLY)
for _ in range(15):
    os.mkdir('d' * 250, dir_fd=at)
    at = os.open('d' * 250, os.O_RDONLY, dir_fd=at)
for i in range(3200):
    os.close(os.open(f'{i:0135}', os.O_CREAT | os.O_WRONLY, dir_fd=at))
"""


def test_names_of_artifacts_are_not_too_many_bytes(fresh):
    """A reply had 40 megabytes of names, or 280 where they are no text."""
    told = fresh.execute(LONG_NAMES, artifacts=True, timeout_seconds=60)
    listed = fresh.get(where="artifacts").json
    for reply in told, listed:
        assert 9_000_000 < sum(len(item["name"]) for item in reply["artifacts"]) <= 10 << 20
        assert len(reply["artifacts"]) + reply["artifacts_skipped"] == 3200


def test_artifacts_too_large_for_a_reply_are_named(service):
    result = service.run("open('output/big','wb').write(b'x'*11_000_000); open('output/small','w').write('s')", artifacts=True).json
    found = {item["name"]: item for item in result["artifacts"]}
    assert found["big"]["bytes"] == 11_000_000 and "content" not in found["big"]
    assert found["small"]["content"] == "s"


# ---- one at a time ----

def test_a_busy_sandbox_says_so(fresh):
    replies = []
    thread = threading.Thread(target=lambda: replies.append(fresh.execute("import time; time.sleep(60)")))
    thread.start()
    wait_until(lambda: fresh.service.get(fresh.url).json["state"] == "busy", "the execution")
    for reply in (fresh.put("x"), fresh.get("x"), fresh.get(where="archive"), fresh.remove("x"), fresh.unpack(b"")):
        assert reply.status == 409 and reply.headers["Retry-After"], reply
    assert fresh.service.delete(fresh.url).status == 202
    thread.join()
    assert replies[0]["verdict"] == "killed"
    wait_until(lambda: fresh.service.get(fresh.url).status == 404, "its end")


def test_whoever_has_a_file_whole_may_go_on(fresh):
    for size in (0, 1, 65536, 300_000):
        fresh.put("f", b"x" * size)
        for _ in range(10):
            assert len(fresh.get("f").body) == size
            assert fresh.put("g").status == 200


def test_another_tenants_files_do_not_exist(fresh):
    """The owner of the socket and the holder of the service's token are two tenants."""
    fresh.put("secret")
    for method, where in (("GET", "files?path=secret"), ("PUT", "files?path=secret"), ("DELETE", "files?path=secret"),
                          ("GET", "archive"), ("PUT", "archive"), ("GET", "artifacts")):
        assert fresh.service.ask(method, f"{fresh.url}/{where}", token=True).status == 404
    assert fresh.service.get(f"{fresh.url}/files?path=secret", token=fresh.created["access_token"]).body == b"x"


def test_tmp_itself(service):
    """As the workspace itself: listed, fetched and unpacked into, but neither written nor removed."""
    box = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    assert service.ask("PUT", f"{box}/files?path=/tmp/a", b"x").status == 200
    assert "a" in [row["name"] for row in service.get(f"{box}/files?path=/tmp").json["entries"]]
    whole = service.get(f"{box}/archive?path=/tmp")
    assert whole.status == 200 and b"a" in whole.body
    assert service.delete(f"{box}/files?path=/tmp/a").status == 200
    assert service.ask("PUT", f"{box}/archive?path=/tmp/", whole.body).status == 200
    assert service.get(f"{box}/files?path=/tmp/a").body == b"x"
    assert service.delete(f"{box}/files?path=/tmp").status == service.ask("PUT", f"{box}/files?path=/tmp", b"x").status == 400


@pytest.mark.parametrize("before, request_, status, field, words", [
    ("import os; os.mkdir('d')", {"files": [{"path": "x", "content": "1"}, {"path": "d", "content": "y"}]}, 400, "files[1].path", "Is a directory"),
    ("import os; os.symlink('/tmp', 'l')", {"files": [{"path": "l/x", "content": "y"}]}, 400, "files[0].path", "link"),
    ("import os; os.remove('coto-main.py'); os.mkdir('coto-main.py')", {}, 400, "code", "Is a directory"),
    ("f = open('big', 'wb', 0)\ntry:\n    while True: f.write(bytes(1 << 16))\nexcept OSError: pass", {"files": [{"path": "y", "content": "z" * 200_000}]}, 413, "files[0].path", "No space")],
    ids=["a directory", "behind a link", "the code's name", "a full disk"])
@pytest.mark.parametrize("how", ["plain", "stream", "async"])
def test_a_file_that_cannot_be_put_costs_no_sandbox(service, before, request_, status, field, words, how):
    """It lost all that was in it, and its token, for a file's name. Nothing of the program has run."""
    made = service.create(resource_limits={"disk_mb": 1})
    url = f"/api/v1/sandbox/{made['sandbox_id']}"
    assert service.post(f"{url}/execute", code=f"kept = 41\n{before}").json["verdict"] == "ok"
    request = {"code": "open('ran', 'w')", **request_}
    if how == "plain":
        reply = service.post(f"{url}/execute", **request)
        assert (reply.status, reply.json["field"]) == (status, field) and words in reply.json["message"], reply
    elif how == "stream":
        reply = service.post(f"{url}/execute?stream=1", **request)
        assert b"event: error" in reply.body and words.encode() in reply.body, reply
    else:
        begun = service.post(f"{url}/execute", **request, **{"async": True}).json
        wait_until(lambda: service.get(f"/api/v1/executions/{begun['execution_id']}").json["state"] == "error", "its end")
    wait_until(lambda: service.get(url).json.get("state") == "idle", "that it is free")
    done = service.post(f"{url}/execute", code="import os; print(kept + 1, os.path.exists('ran'))", language="python").json if words != "No space" else None
    if done:
        assert (done["output"], done["state_found"]) == ("42 False\n", True) if field != "code" else True, done
    else:
        assert service.ask("DELETE", f"{url}/files?path=big").status == 200
        assert service.post(f"{url}/execute", code="print(kept + 1)").json["output"] == "42\n"
    if field == "code":
        assert service.ask("DELETE", f"{url}/files?path=coto-main.py").status == 200
        assert service.post(f"{url}/execute", code="print(kept + 1)").json["output"] == "42\n"
    assert service.delete(url).status == 200


def test_holes_are_not_hashed_for_nothing(service):
    """A file of nothing costs its program nothing, and whoever reads and hashes it seconds of a processor that no limit counts."""
    code = ("import os\nfor name, size in (('small', 8 << 20), ('large', 3 << 30)):\n    open('output/' + name, 'w').truncate(size)\n"
            "open('output/full', 'wb').write(os.urandom(1 << 20))")
    done = service.run(code, artifacts=True, resource_limits={"disk": "4g"}).json
    assert {it["name"] for it in done["artifacts"]} == {"small", "full"} and done["artifacts_skipped"] == 1, done["artifacts_skipped"]


# ---- large ones ----

def test_a_large_file_passes_through(make_service):
    """Up in chunks and down again; the front keeps little of it at any time."""
    size = 96
    service = make_service("--high-isolation=none")
    box = Box(service, resource_limits={"disk_mb": 2 * size, "memory_mb": 3 * size})
    block = os.urandom(MIB)
    box.put("small")
    before = peak_kb(service)
    assert box.put("large", (block for _ in range(size))).status == 200
    reply = box.get("large")
    assert reply.status == 200 and hashlib.sha256(reply.body).digest() == hashlib.sha256(block * size).digest()
    assert peak_kb(service) - before < size * 1024 / 8
    assert box.execute("import os; print(os.stat('large').st_size)")["output"] == f"{size * MIB}\n"


def peak_kb(service):
    pid, = service.fronts()
    return int(status_of(pid)["VmHWM"].split()[0])
