"""A network namespace in which no socket was ever made is given to the next sandbox; one in which there
was any goes with its sandbox."""
import contextlib
import ctypes
import json
import os
import pathlib
import resource
import subprocess
import sys

import pytest

from cli.helpers import descendants

from .daemon import Daemon
from .helpers import wait_until

LOOK = """
import json, os
def numbers(name):
    return [int(word) for line in open('/proc/net/' + name) for word in line.replace(':', ' ').split()[1:] if word.isdigit()]
def counters():
    rows = [line.split() for line in open('/proc/net/snmp')]
    names = {(keys[0], key): int(value) for keys, values in zip(rows[::2], rows[1::2])
             for key, value in zip(keys[1:], values[1:])}
    return {'traffic': sum(numbers('dev')),
            'ip': names['Ip:', 'InReceives'] + names['Ip:', 'OutRequests'],
            'tcp': names['Tcp:', 'ActiveOpens'] + names['Tcp:', 'PassiveOpens'],
            'left': sum(len(open('/proc/net/' + name).readlines()) - 1 for name in ('tcp', 'udp', 'unix')),
            'namespace': os.readlink('/proc/self/ns/net')}
"""
TALK = """
import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
server.accept()[0].sendall(b'x' * 1000)
assert len(client.recv(1000)) == 1000
client.close()
"""
QUIET = {"traffic": 0, "ip": 0, "tcp": 0, "left": 0}
WAYS = {
    "itself": TALK,
    "a thread": f"import threading\nt = threading.Thread(target=exec, args=({TALK!r}, {{}}))\nt.start()\nt.join()\n",
    "a fork": f"import os\npid = os.fork()\nif not pid:\n    exec({TALK!r}, {{}})\n    os._exit(0)\n"
              "assert os.waitpid(pid, 0)[1] == 0\n",
    "a child": f"import subprocess, sys\nsubprocess.run(['python3', '-c', {TALK!r}], check=True)\n",
}


def look(service, before=""):
    reply = service.post("/api/v1/run", code=LOOK + before + "\nprint(json.dumps(counters()))")
    assert reply.status == 200 and reply.json["verdict"] == "ok", reply
    seen = json.loads(reply.json["stdout"])
    assert reply.json["walls"]["net_namespace"]["value"] == seen["namespace"]
    return {name: seen[name] for name in QUIET}, seen["namespace"]


def test_unused_ones_come_back(service):
    """The control of the next test: there is something to be found if it were done wrongly."""
    names = [look(service)[1] for _ in range(30)]
    assert len(set(names)) < len(names)


@pytest.mark.parametrize("way", WAYS)
def test_used_ones_do_not(service, way):
    seen, _ = look(service, WAYS[way])
    assert seen["traffic"] and seen["ip"] and seen["tcp"] and seen["left"], "it was used"
    for _ in range(25):
        assert look(service)[0] == QUIET


def test_sockets_work_as_ever(service):
    code = ("import socket\na, b = socket.socketpair()\na.send(b'1')\nprint(b.recv(1))\n"
            "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX): socket.socket(family).close()\n"
            "try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nexcept OSError as error: print(error.errno > 0)")
    assert service.post("/api/v1/run", code=code).json["stdout"] == "b'1'\nTrue\n"


def test_one_that_is_killed_while_it_makes_some(service):
    code = "import socket, os\nfor i in range(8): os.fork()\nwhile True: socket.socketpair()"
    reply = service.post("/api/v1/run", code=code, timeout_seconds=1)
    assert reply.json["verdict"] in ("timeout", "nonzero", "pids", "ok"), reply
    assert all(look(service)[0] == QUIET for _ in range(12))


@pytest.fixture(scope="module")
def daemon():
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


def links(pid, directory):
    """Where its links below /proc lead to."""
    found = []
    for link in pathlib.Path(f"/proc/{pid}/{directory}").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(link))
    return found


def destroy(daemon, boxes):
    for box in boxes:
        assert daemon.delete(f"/api/v1/sandbox/{box['sandbox_id']}").status < 300


def networks_of_inits(daemon):
    return [name for pid, row in descendants(daemon.launcher).items() if row[1].startswith("coto-init")
            for name in links(pid, "ns") if name.startswith("net:")]


def networks_kept(daemon):
    return [name for name in links(daemon.launcher, "fd") if name.startswith("net:")]


def test_each_that_is_alive_has_one_of_its_own(daemon):
    """Whether it was made ahead, came back from another sandbox, or was made by init itself when there was none left."""
    for _ in range(2):
        boxes = [daemon.create() for _ in range(200)]
        names = networks_of_inits(daemon)
        assert len(names) >= 200 and len(set(names)) == len(names)
        assert os.readlink("/proc/self/ns/net") not in names
        destroy(daemon, boxes)


@contextlib.contextmanager
def held(daemon):
    """Names of the networks that sandboxes have; nothing new has one of these numbers meanwhile."""
    fds = [os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for pid, row in descendants(daemon.launcher).items()
           if row[1].startswith("coto-init")]
    yield {os.readlink(f"/proc/self/fd/{fd}") for fd in fds}
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("code", ["", TALK], ids=["nothing ran", "it was used"])
def test_of_sandboxes_that_are_held(daemon, code):
    """They come back when nothing ran there; when something did they do not."""
    names, boxes = set(), [daemon.create() for _ in range(30)]
    for box in boxes[10:] if code else ():  # the first of them were the pool's, as others are now
        reply = daemon.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", token=box["access_token"],
                            code=code + "import os\nprint(os.readlink('/proc/self/ns/net'))")
        assert reply.json["verdict"] == "ok", reply
        names.add(reply.json["output"].strip())
    with held(daemon) as before:
        assert names <= before
        destroy(daemon, boxes)
        boxes = [daemon.create() for _ in range(30)]
        after = set(networks_of_inits(daemon))
        assert (after & before if not code else not after & names), (after, before, names)
    destroy(daemon, boxes)


def test_those_that_came_back_go_in_the_end(daemon):
    """Although there is always somebody who takes one."""
    boxes = [daemon.create() for _ in range(400)]
    destroy(daemon, boxes)
    assert len(networks_kept(daemon)) > 150, "control"
    wait_until(lambda: daemon.post("/api/v1/run", code="1").status == 200 and len(networks_kept(daemon)) <= 150, "fewer kept")
    assert len(networks_kept(daemon)) > 100, "some are made ahead"
    assert "coto-nets" in [pathlib.Path(f"/proc/{daemon.launcher}/task/{task}/comm").read_text().strip()
                           for task in os.listdir(f"/proc/{daemon.launcher}/task")]


LIMITS = """
import ctypes, os, sys
libc, directory, own = ctypes.CDLL(None), f'/proc/{sys.argv[1]}/fd/', os.readlink('/proc/self/ns/net')
for name in os.listdir(directory):
    try:
        if os.readlink(directory + name).startswith('net:') and os.readlink(directory + name) != own:
            fd = os.open(directory + name, os.O_RDONLY)
            assert libc.setns(fd, 0x40000000) == 0
            os.close(fd)
            print(*[open('/proc/sys/net/' + it).read().strip() for it in ('core/somaxconn', 'ipv4/tcp_max_tw_buckets')])
    except FileNotFoundError:
        pass  # it went meanwhile
"""


def limits_kept(daemon):
    """Of all that the launcher holds."""
    return subprocess.run([sys.executable, "-c", LIMITS, str(daemon.launcher)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def test_none_is_without_its_limits(daemon):
    """Nor when descriptors were out while it was made; whatever failed then is told as what it is."""
    before, boxes, refused = resource.prlimit(daemon.launcher, resource.RLIMIT_NOFILE), [], []
    room = len(links(daemon.launcher, "fd")) + 150
    resource.prlimit(daemon.launcher, resource.RLIMIT_NOFILE, (room, before[1]))
    while len(refused) < 40 and len(boxes) < 400:
        reply = daemon.post("/api/v1/sandbox/create")
        (boxes if reply.status == 201 else refused).append(reply)
    assert {(reply.status, reply.json["code"], bool(reply.json["remedy"])) for reply in refused} == {(503, "busy", True)}, refused
    resource.prlimit(daemon.launcher, resource.RLIMIT_NOFILE, before)
    destroy(daemon, [reply.json for reply in boxes])
    wait_until(lambda: len(networks_kept(daemon)) > 128, "some made ahead")
    found = limits_kept(daemon)
    assert len(found) > 100 and set(found) == {"64 8192"}


def into_a_user_namespace():
    """Root of it, with every id, in mounts and a network that are the host's."""
    read, write = os.pipe()
    me, helper = os.getpid(), os.fork()
    if not helper:
        os.read(read, 1)
        for name in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{me}/{name}").write_text("0 0 4294967294\n")
        os._exit(0)
    if ctypes.CDLL(None).unshare(0x10000000) == 0:
        os.write(write, b"x")
    os.waitpid(helper, 0)
    os.close(read)
    os.close(write)


def test_where_the_launcher_could_not_come_back():
    """It does not leave its own network and mounts then: sandboxes make theirs."""
    it = Daemon()
    it.before = into_a_user_namespace
    with it:
        assert os.readlink(f"/proc/{it.launcher}/ns/user") != os.readlink("/proc/self/ns/user"), "control"
        reply = it.post("/api/v1/run", code="import os\nprint(os.readlink('/proc/self/ns/net'))")
        assert reply.json["verdict"] == "ok" and reply.json["walls"]["net_namespace"]["up"], reply
        assert reply.json["stdout"].strip() != os.readlink("/proc/self/ns/net")
        assert it.stop() == 0, it.messages
        assert "it is started again" not in it.log.read_text()
