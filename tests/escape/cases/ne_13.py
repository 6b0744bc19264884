"""NE-13: open a port on the host: on all addresses, or a privileged one.

Publishing ports belongs to a later issue: there is no option for it. A program may
listen, and is heard by nobody but itself.
"""
import contextlib
import json
import socket

from escape.harness import Untestable, escaped
from escape.lib_files import TRY, refusal

TITLE = "listening on the host's addresses"
TRIED = ("listen on 0.0.0.0, :: and 127.0.0.1, at a high and at a privileged port; the host "
         "connects to each")
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
ASKED = '[["0.0.0.0", 0], ["::", 0], ["127.0.0.1", 0], ["0.0.0.0", 917]]'


def reached(box, **more):
    """(what the program listens on, what of it the host can reach)."""
    with box.running(LISTEN, args=[ASKED], **more) as it:
        heard = json.loads(it.line())
        found = []
        for host, port in heard:
            with contextlib.suppress(OSError), socket.create_connection(
                    ("::1" if ":" in host else "127.0.0.1", port), 2):
                found.append(port)
        it.say("\n")
        it.end()
    return heard, found


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
    assert len(found) >= 3, (heard, found)
    return f"{len(found)} of {len(heard)} reachable from the host"
