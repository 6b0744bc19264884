"""NE-13: open a port on the host: on all addresses, or a privileged one.

There is no option to publish a port. A program may listen, and is heard by nobody but
itself.
"""
import json
import os

from escape.harness import Untestable, escaped
from escape.lib_files import TRY, refusal

TITLE = "listening on the host's addresses"
TRIED = ("listen on 0.0.0.0, :: and 127.0.0.1, at a high and at a privileged port, on a host where those are anybody's; the "
         "host connects to each")
WALLS = ["net_namespace"]
LISTEN = TRY + """
keep, heard = [], []
for host, port in json.loads(sys.argv[1]):
    s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    word = attempt(s.bind, (host, port))
    if word == 'done':
        s.listen(); keep.append(s); heard.append([host, s.getsockname()[1]])
print('ready'); print(json.dumps(heard), flush=True)
input()
"""
PRIVILEGED = 917
ASKED = f'[["0.0.0.0", 0], ["::", 0], ["127.0.0.1", 0], ["0.0.0.0", {PRIVILEGED}]]'


# A host with a network of its own, where privileged ports are anybody's.
LOBBY = """
import fcntl, os, socket, struct, sys
with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w").write("0")
os.execvp(sys.argv[1], sys.argv[1:])
"""
# The host's side: which of these ports answer.
KNOCK = """
import json, socket, sys
found = []
for host, port in json.loads(sys.argv[1]):
    try: socket.create_connection(("::1" if ":" in host else "127.0.0.1", port), 2).close(); found.append(port)
    except OSError: pass
print(json.dumps(found))
"""


def reached(box, **more):
    """(what the program listens on, what of it the host can reach)."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    before, box.prefix = box.prefix, ["unshare", "--net", *user, "/usr/bin/python3", "-c", LOBBY, *box.prefix]
    try:
        with box.running(LISTEN, args=[ASKED], **more) as it:
            heard = json.loads(it.line())
            enter = ["nsenter", "-t", str(it.process.pid), "--net", *(["--user", "--preserve-credentials"] if user else [])]
            done = box.start_and_wait([*enter, "/usr/bin/python3", "-c", KNOCK, json.dumps(heard)])
            assert done.status == 0, done
            it.say("\n")
            it.end()
    finally:
        box.prefix = before
    return heard, json.loads(done.out)


def attack(box):
    refusal(box.sh("echo ran", flags=["--publish", "8080:80"], may_refuse=True), 64)
    heard, found = reached(box)
    if found:
        escaped("ESCAPE", f"the host reaches ports {found}")
    if not heard:
        raise Untestable("the program could not listen at all")
    return f"{len(heard)} listeners inside, none reachable; --publish does not exist"


def control(box):
    heard, found = reached(box, without=["net_namespace", "landlock"])
    assert len(found) == len(heard) == 4 and PRIVILEGED in found, (heard, found)
    return f"all {len(found)} reachable from the host, port {PRIVILEGED} among them"
