"""NE-09: find the socket of a container engine, a bus, an agent or another service in the file system."""
import socket
import stat

from api.helpers import Service
from escape.harness import escaped
from escape.lib_files import TRY, counted, folder, room
from escape.lib_net import call, held, listeners, met

TITLE = "pathname sockets of the host"
TRIED = ("connect to a listening socket by its host path, through /proc/1/root and cwd; the usual places; every socket below /; "
         "a coto serve beside it, by its socket and its port")
WALLS = ["mount_namespace", "net_namespace"]
USUAL = ["/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
         "/run/crio/crio.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify",
         "/run/systemd/journal/socket", "/run/user/0/bus", "/run/user/1000/bus", "/tmp/.X11-unix/X0", "/dev/log",
         "/run/snapd.socket", "/run/libvirt/libvirt-sock", "/run/coto/api.sock", "/run/nscd/socket"]
SEARCH = TRY + """
found = []
for top, dirs, files in os.walk('/'):
    if top == '/': dirs[:] = [d for d in dirs if d not in ('proc', 'usr')]
    found += [os.path.join(top, f) for f in files if stat.S_ISSOCK(os.lstat(os.path.join(top, f)).st_mode)]
agents = [k for k in os.environ if k in ('SSH_AUTH_SOCK', 'DBUS_SESSION_BUS_ADDRESS', 'DOCKER_HOST', 'NOTIFY_SOCKET')]
print(json.dumps([[p for p in sys.argv[1:] if os.path.lexists(p)], found, agents]))
"""

# What our own API answers to whoever reaches it.
ASK = TRY + """
def ask(family, where):
    with socket.socket(family) as s:
        s.settimeout(5)
        s.connect(where)
        s.sendall(b'GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')
        if not s.recv(64).startswith(b'HTTP/1.1 '): raise OSError(errno.EPROTO, 'no HTTP')
path, port = sys.argv[1], int(sys.argv[2])
print(json.dumps({'socket': attempt(ask, socket.AF_UNIX, path), 'init': attempt(ask, socket.AF_UNIX, '/proc/1/root' + path),
                  'port': attempt(ask, socket.AF_INET, ('127.0.0.1', port)), 'port 6': attempt(ask, socket.AF_INET6, ('::1', port))}))
"""


def asked(box, **more):
    """What a program gets of a service that runs beside it."""
    with Service() as service:
        found = box.inside(ASK, args=[service.runtime / "api.sock", service.port], **more)
        assert service.stop() == 0, service.messages
    return found


def served(here):
    return listeners((socket.AF_UNIX, socket.SOCK_STREAM, str(folder(here / "s") / "api.sock")))


def targets(here):
    path = f"{here}/s/api.sock"
    return [("unix", prefix + path, 0) for prefix in ("", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../..")]


def attack(box):
    with room() as here, served(here):
        (here / "s/api.sock").chmod(0o777)
        found = call(box, targets(here))
    usual, sockets, agents = box.inside(SEARCH, args=USUAL, env={"SSH_AUTH_SOCK": "/tmp/x", "DOCKER_HOST": "unix:///x"})
    if usual or sockets or agents:
        escaped("ESCAPE", f"{usual} {sockets} {agents}")
    api = asked(box)
    if "done" in api.values():
        escaped("ESCAPE", f"our own API: {api}")
    return held(found) + f"; no socket in the file system; our own API: {counted(api.values())}"


def control(box):
    with room() as here, served(here):
        assert stat.S_ISSOCK((here / "s/api.sock").stat().st_mode)
        (here / "s/api.sock").chmod(0o777)
        words = met(call(box, targets(here), without=["mount_namespace", "landlock"]), least=1)
    api = asked(box, without=["mount_namespace", "net_namespace", "landlock", "uid"])
    assert {"socket", "port"} <= {name for name, word in api.items() if word == "done"}, api
    return f"{words}; our own API answers by its socket and its port"
