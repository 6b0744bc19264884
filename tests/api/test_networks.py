"""A network namespace in which no socket was ever made is given to the next sandbox; one in which there
was any goes with its sandbox."""
import json

import pytest

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
