"""XS-08: find what a run before has left: files, segments, sockets, keys, processes."""
import os
import secrets

from escape.lib_pair import look, nothing
from escape.lib_files import TRY

TITLE = "what an earlier run left"
TRIED = ("a run leaves files, a shared segment, a key, a daemon with a listener and ends; three "
         "runs after it look for all of them")
WALLS = ["mount_namespace", "ipc_namespace", "pid_namespace", "uid"]
PLACES = ["/tmp", "/var/tmp", "/dev/shm", "/workspace", "/workspace/output"]
LEAVE = TRY + """
name, key = sys.argv[1], int(sys.argv[2])
for place in %r: attempt(lambda: open(f"{place}/{name}", "x"))
libc.shmget(key, 4096, 0o1666)
libc.syscall(248, b"user", name.encode(), b"token", ctypes.c_long(5), ctypes.c_long(-4))
s = socket.socket(socket.AF_UNIX); s.bind("\\0" + name); s.listen()
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    time.sleep(int(sys.argv[3])); os._exit(0)
print(json.dumps("left"), flush=True)
""" % PLACES
LOOK = """
name, key = sys.argv[1], int(sys.argv[2])
for place in %r:
    found[place] = os.path.exists(f"{place}/{name}") and attempt(os.unlink, f"{place}/{name}") + "!"
i = libc.shmget(key, 4096, 0)
found["shm"] = i >= 0 and libc.shmctl(i, 0, None) >= -1
found["key"] = libc.syscall(250, ctypes.c_long(10), ctypes.c_long(-4), b"user", name.encode(), ctypes.c_long(0)) > 0
found["socket"] = attempt(socket.socket(socket.AF_UNIX).connect, "\\0" + name) == "done"
found["processes"] = len([pid for pid in os.listdir("/proc") if pid.isdigit()]) > 2
""" % PLACES


def seen(box, seconds, looks, **more):
    name, key = "coto-test-" + secrets.token_hex(8), 0x20000 + os.getpid()
    assert box.inside(LEAVE, args=[name, key, seconds], **more) == "left"
    return [look(box, LOOK, args=[name, key], **more) for _ in range(looks)]


def attack(box):
    for found in seen(box, 60, 3):
        text = nothing(found)
    return f"three runs later: {text}"


def control(box):
    without = ["mount_namespace", "ipc_namespace", "net_namespace", "landlock", "seccomp", "uid"]
    found = seen(box, 2, 1, without=without)[0]
    assert found["/tmp"] and found["/dev/shm"] and found["shm"], found
    return f"found by the next: {', '.join(name for name in found if found[name])}"
