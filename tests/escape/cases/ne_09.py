"""NE-09: find the socket of a container engine, a bus, an agent or another service in the file system."""
import socket
import stat

from escape.harness import escaped
from escape.lib_files import TRY, folder, room
from escape.lib_net import call, held, listeners, met

TITLE = "pathname sockets of the host"
TRIED = ("connect to a listening socket by its host path, through /proc/1/root and cwd; the "
         "usual places; every socket below /")
WALLS = ["mount_namespace"]
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
    return held(found) + "; no socket in the file system"


def control(box):
    with room() as here, served(here):
        assert stat.S_ISSOCK((here / "s/api.sock").stat().st_mode)
        (here / "s/api.sock").chmod(0o777)
        return met(call(box, targets(here), without=["mount_namespace", "landlock"]), least=1)
