"""coto serve with nothing set up: who gets in, where, and what happens around its start."""
import contextlib
import os
import socket
import shutil
import stat
import struct
import subprocess
import uuid

import pytest

from cli.helpers import PATH, only, status_of

from .daemon import NO_TOKEN, UNAUTHORIZED, Daemon, bearer, refusal
from .helpers import BIN, PATIENCE, ROOT, Reply


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it


@pytest.fixture
def other():
    """One that was not started yet."""
    it = Daemon()
    yield it
    it.__exit__()


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def ask_port(service, path, headers):
    """As a stranger on this host."""
    with contextlib.closing(service.connect(tcp=True)) as connection:
        connection.request("GET", path, headers=headers)
        return Reply(connection.getresponse())


def test_socket_and_token_are_private_and_it_says_how_to_use_them(service):
    sock, token = service.runtime / "api.sock", service.runtime / "token"
    assert (mode(service.runtime), mode(sock), mode(token)) == (0o700, 0o600, 0o600)
    assert f"unix:{sock}" in service.messages and f"$(cat {token})" in service.messages
    assert service.run("print(6*7)").json["stdout"] == "42\n"
    assert service.get("/api/v1/sandbox", token=True).json == {"sandboxes": []}
    assert ask_port(service, "/healthz", {}).status == 200


def ask_as(service, value):
    """With that Authorization; its headers but for the time, too, tell nothing else."""
    reply = ask_port(service, "/api/v1/sandbox", {} if value is None else {"Authorization": value.format(service.token, service.token)})
    return refusal(reply), {name: text for name, text in reply.headers.items() if name != "Date"}


@only(ROOT) # who gives capabilities to files
def test_a_program_with_capabilities_of_its_file_starts(other):
    """For port 443 without root, say. The C library takes no orders from its environment then."""
    programs = other.room / "bin"
    programs.mkdir()
    for it in BIN.glob("coto*"):
        if it.is_file():
            shutil.copy2(it, programs)
    permitted = 1 << 10 # CAP_NET_BIND_SERVICE, effective
    os.setxattr(programs / "coto-serve", "security.capability", struct.pack("<5I", 0x02000001, permitted, 0, 0, 0))
    home = other.room / "home"
    home.mkdir()
    os.chown(home, 65533, 65533)
    other.program, other.state, other.runtime = programs / "coto", home / "state", home / "run"
    other.before = lambda: (os.setgroups([]), os.setresgid(65533, 65533, 65533), os.setresuid(65533, 65533, 65533))
    other.start()
    assert other.run("print(6*7)").json["stdout"] == "42\n"
    assert int(status_of(other.process.pid)["CapPrm"], 16) == permitted, "control: it has it"


@pytest.mark.parametrize("value", [None, "", " ", "Bearer", "Bearer ", "Basic Zm9vOmJhcg==", "Bearers {}", "Basic {}", "{}", "Bearer\t{}", "Bearer={}"])
def test_without_a_token_all_are_refused_alike(service, value):
    """AP-09"""
    assert ask_as(service, value)[0] == NO_TOKEN
    assert ask_as(service, value) == ask_as(service, None)
    assert ask_port(service, "/api/v1/sandbox", bearer(service.token)).status == 200


@pytest.mark.parametrize("value", ["Bearer {}x", "Bearer  {}", "Bearer null", "Bearer a.b.c", "Bearer {},{}", "Bearer x", "Bearer " + "x" * 8000,
                                   "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJsb2NhbCJ9.", "Bearer {} {}"])
def test_with_a_bad_token_all_are_refused_alike(service, value):
    """Whatever is wrong with it; what is wrong with signed ones is in test_production."""
    assert ask_as(service, value)[0] == UNAUTHORIZED
    assert ask_as(service, value) == ask_as(service, "Bearer x")


def test_it_is_no_matter_what_is_asked_for(service):
    """Neither the kind of request nor whether there is such a thing."""
    box = service.create()["sandbox_id"]
    for method, path in (("POST", "/api/v1/run"), ("GET", "/metrics"), ("GET", f"/api/v1/sandbox/{box}"), ("DELETE", f"/api/v1/sandbox/{box}"),
                         ("GET", f"/api/v1/sandbox/{uuid.uuid4()}"), ("GET", f"/api/v1/executions/{uuid.uuid4()}")):
        assert refusal(service.ask(method, path, {"code": "1"} if method == "POST" else None, token="x")) == UNAUTHORIZED
        with contextlib.closing(service.connect(tcp=True)) as connection:
            connection.request(method, path)
            assert refusal(Reply(connection.getresponse())) == NO_TOKEN
    assert service.delete(f"/api/v1/sandbox/{box}").status == 200, "control: it was there"


@pytest.mark.parametrize("scheme", ["bearer", "BEARER"])
def test_a_scheme_in_any_case(service, scheme):
    """RFC 9110, 11.1"""
    assert ask_port(service, "/api/v1/sandbox", {"Authorization": f"{scheme} {service.token}"}).status == 200
    assert refusal(ask_port(service, "/api/v1/sandbox", {"Authorization": f"{scheme} x"})) == UNAUTHORIZED


def test_a_bad_token_is_refused_on_the_socket_too(service):
    assert refusal(service.get("/api/v1/sandbox", headers=bearer("x"))) == UNAUTHORIZED
    assert service.get("/api/v1/sandbox").status == 200


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"},
                                     {"Host": "127.0.0.1.evil.example"}, {"Host": "localhost.evil.example:80"},
                                     {"Host": "127.0.0.1:80:evil.example"}, {"Host": "localhost:x"}])
def test_web_pages_are_not_served(service, headers):
    """AP-19"""
    reply = ask_port(service, "/healthz", {**bearer(service.token), **headers})
    assert reply.status == 403
    if "Host" in headers:
        assert f"Host: '{headers['Host']}'" in reply.json["message"] and "127.0.0.1, localhost or [::1]" in reply.json["remedy"]
    else:
        assert "web pages" in reply.json["message"] and "Origin" in reply.json["remedy"]
    assert ask_port(service, "/healthz", {"Host": "localhost"}).status == 200


@pytest.mark.parametrize("origin, status", [("http://evil.example", 403), (None, 404)], ids=["foreign", "control"])
def test_web_sockets_are_not_served_to_pages(service, origin, status):
    """AP-19: a browser lets any page begin one, and tells its origin. There are none here for anybody."""
    fields = {**bearer(service.token), "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **({"Origin": origin} if origin else {})}
    for path in ("/", "/api/v1/ws", "/api/v1/run"):
        reply = ask_port(service, path, fields)
        assert reply.status != 101 and reply.status in (status, 405 if status == 404 else 403), (path, reply)
    assert ask_port(service, "/api/v1/sandbox", bearer(service.token)).status == 200


def test_another_socket_in_the_place_of_its_own(other, tmp_path):
    """AP-17: only its owner can put one there (the next test). Whoever is connected stays connected, and the next service has
    its own again; a link in its place is refused, not followed and not removed."""
    other.start()
    mine = other.runtime / "api.sock"
    with contextlib.closing(other.connect()) as own, socket.socket(socket.AF_UNIX) as stranger:
        own.connect()
        mine.unlink()
        stranger.bind(str(mine))
        stranger.listen()
        own.request("GET", "/healthz")
        assert Reply(own.getresponse()).status == 200
        assert ask_port(other, "/healthz", bearer(other.token)).status == 200
        other.kill()
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    mine.unlink()
    mine.symlink_to(victim)
    status, said = other.fails()
    assert status == 64 and f"'{mine}': something else than a socket is there" in said and "remove it" in said
    assert mine.is_symlink() and victim.read_text() == "as it was"
    mine.unlink()
    assert other.start().run("print(1)").json["verdict"] == "ok"
    assert stat.S_ISSOCK(mine.lstat().st_mode) and mode(mine) == 0o600


@only(ROOT)  # it needs a second user
def test_others_cannot_connect_and_are_nobody_when_they_can(service):
    """AP-17: directory and socket keep them out, also from putting another in its place; with both opened their credentials do."""
    sock = service.runtime / "api.sock"

    def status_of_another():
        command = ["setpriv", "--reuid=65533", "--clear-groups", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                   "--unix-socket", sock, "http://coto/api/v1/sandbox"]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert status_of_another() == "000"
    for mode_of_directory in (0o700, 0o711):
        service.runtime.chmod(mode_of_directory)
        swap = subprocess.run(["setpriv", "--reuid=65533", "--clear-groups", "mv", sock, f"{sock}.old"], capture_output=True, timeout=PATIENCE)
        assert swap.returncode != 0 and sock.is_socket()
    assert status_of_another() == "000"
    sock.chmod(0o666)
    assert status_of_another() == "401"
    sock.chmod(0o600)
    service.runtime.chmod(0o700)


def test_a_second_one_is_refused_and_the_first_goes_on(service, other):
    status, said = other.fails(f"--runtime-dir={service.runtime}")
    assert status == 75 and "another coto serve runs" in said and "its own --runtime-dir, --state-dir and --port" in said
    assert service.run("print(1)").json["verdict"] == "ok"


def test_one_records_directory_has_one_service(service, other):
    """DR-09"""
    status, said = other.fails(f"--state-dir={service.state}")
    assert status != 0 and str(service.state) in said
    assert service.run("print(1)").json["verdict"] == "ok"


def test_a_port_that_is_taken_is_said(other):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, said = other.fails(f"--port={taken.getsockname()[1]}")
    assert status == 71 and "Address already in use" in said and "--port=0" in said
    assert sorted(os.listdir(other.runtime)) == ["life", "lock"]


@pytest.mark.parametrize("wrong", ["open", "link", "file"])
def test_a_directory_that_others_could_use_is_refused(other, wrong):
    if wrong == "open":
        other.runtime.mkdir()
        other.runtime.chmod(0o755)
    elif wrong == "link":
        (other.room / "elsewhere").mkdir(mode=0o700)
        other.runtime.symlink_to("elsewhere")
    else:
        other.runtime.write_text("")
    status, said = other.fails()
    assert status == 68 and "yours alone" in said


def test_a_stale_socket_is_replaced_and_the_end_leaves_none(other):
    other.start().kill()
    assert (other.runtime / "api.sock").exists()
    assert other.start().run("print(1)").json["verdict"] == "ok"
    assert other.stop() == 0
    assert sorted(os.listdir(other.runtime)) == ["life", "lock"]


def test_nowhere_to_listen(other):
    status, said = other.fails("--socket=none", "--port=none")
    assert status == 64 and "listen" in said


def test_two_services_do_not_meet(service, other):
    other.start()
    sandbox = other.create()
    assert len(other.get("/api/v1/sandbox").json["sandboxes"]) == 1
    assert service.get("/api/v1/sandbox").json["sandboxes"] == []
    assert refusal(service.get("/api/v1/sandbox", token=other.token)) == UNAUTHORIZED
    assert refusal(service.get(f"/api/v1/sandbox/{sandbox['sandbox_id']}", token=sandbox["access_token"])) == UNAUTHORIZED


def test_the_service_cannot_be_reached_from_inside(service):
    """AP-18; control: the same two connections from outside are made"""
    attempt = f"""
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {service.port})), (socket.AF_UNIX, "{service.runtime / 'api.sock'}")):
    try:
        with socket.socket(family) as sock:
            sock.connect(address)
        print("connected")
    except OSError as error:
        print(type(error).__name__)
"""
    outside = subprocess.run(["/usr/bin/python3", "-c", attempt], capture_output=True, text=True, timeout=PATIENCE)
    assert outside.stdout == "connected\nconnected\n"
    assert service.run(attempt).json["stdout"] == "ConnectionRefusedError\nFileNotFoundError\n"


USUAL = """set -e
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /run
images() { coto image import "$TREE" box:1 > /dev/null; }
api() { curl -sf --unix-socket /run/coto/api.sock "http://coto/$@"; }
service() {
    coto serve --port=none --high-isolation=none &
    trap "kill $!" EXIT
    for i in $(seq 600); do api readyz > /dev/null && break; sleep 0.1; done
    api api/v1/run -d '{"code": "print(2+2)"}'
    trap - EXIT
    kill $!
    wait $!
}
ORDER
echo
stat -c '%n %a %u' /var/lib/coto /var/lib/coto/images
stat -c '%n %a' /var/lib/coto/serve
mkdir /run/bin # a clone may lie where nobody else can read
cp "$BIN/coto" "$BIN/coto-image" /run/bin
setpriv --reuid 65533 --regid 65533 --clear-groups env HOME=/nonexistent /run/bin/coto image list
"""


@only(ROOT)
@pytest.mark.parametrize("order", ["images; service", "service; images"])
def test_roots_images_and_the_service_are_neighbours(tmp_path, order):
    """In the usual places, whichever comes first: /var/lib/coto stays root's, and others see its images."""
    (tmp_path / "tree/etc").mkdir(parents=True)
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", USUAL.replace("ORDER", order)],
                          env={"PATH": f"{BIN}:{PATH}", "BIN": str(BIN), "TREE": str(tmp_path / "tree"),
                               "HOME": str(tmp_path)},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done
    assert '"stdout":"4\\n"' in done.stdout and "box:1" in done.stdout, done
    for line in ("/var/lib/coto 755 0", "/var/lib/coto/images 755 0", "/var/lib/coto/serve 700"):
        assert f"{line}\n" in done.stdout, done
