"""ML-04: a false /proc, so that limits and labels are written into nothing (CVE-2019-19921, CVE-2025-52881)."""
import json
import os
import subprocess

from cli.helpers import environment, make_rootfs
from escape.harness import escaped
from escape.lib_files import file, folder, refusal, room, tree, unchanged

TITLE = "a false /proc"
TRIED = "--rootfs that brings its own /proc/self, /proc/sys; mounts at /proc; coto itself started with a false /proc"
WALLS = ["mount_namespace", "pid_namespace", "no_new_privs", "seccomp"]

FAKES = ["self/oom_score_adj", "self/attr/exec", "self/attr/current", "self/setgroups", "self/uid_map", "self/status",
         "sys/kernel/core_pattern", "sys/user/max_inotify_instances", "mounts", "1/oom_score_adj"]
LOOK = """
import json, os, ctypes
class Fs(ctypes.Structure): _fields_ = [("type", ctypes.c_long), ("rest", ctypes.c_char * 256)]
fs = Fs()
ctypes.CDLL(None).statfs(b"/proc", ctypes.byref(fs))
status = dict(l.split(":", 1) for l in open("/proc/self/status").read().splitlines() if ":" in l)
print(json.dumps([fs.type, status.get("NoNewPrivs", "").strip(), status.get("Seccomp", "").strip(),
                  open("/proc/self/oom_score_adj").read().strip()]))
"""
PROC_MAGIC = 0x9fa0
# Only coto sees it: everything else has gone before.
FALSE_PROC = 'mount -t tmpfs false /proc && mkdir -p /proc/self/fd /proc/sys/user && "$@"'
OWN_USER = ["--user", "--map-current-user", "--keep-caps"]


def image(here, place="proc"):
    root = make_rootfs(here / place.replace("/", "-"), ("/bin/sh", "/bin/cat", "/bin/stat"))
    for name in FAKES:
        path = root / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        file(path, "fake\n")
    return root


def elsewhere(here):
    """Its /proc is a link to where the host has a directory, and the image a false one."""
    root = image(here, "usr/share")
    (root / "proc").rmdir()
    (root / "proc").symlink_to("/usr/share")
    return root


def attack(box):
    with room() as here:
        refusal(box.run(["/bin/sh", "-c", "true"], flags=["--rootfs", elsewhere(here)], may_refuse=True), 68)
        root = image(here)
        before = tree(root / "proc")
        script = "stat -f -c %t /proc; cat /proc/self/oom_score_adj /proc/self/attr/exec /proc/mounts"
        text = box.sh(script, flags=["--rootfs", root]).text
        unchanged(before, tree(root / "proc"))
        if "fake" in text or not text.startswith(f"{PROC_MAGIC:x}"):
            escaped("ESCAPE", text)
        for target in ("/proc", "/proc/self", "/proc/sys"):
            for flag in (["--mount", f"{folder(here / target.replace('/', '-'))}:{target}"], ["--tmpfs", target]):
                refusal(box.run(["true"], flags=flag, may_refuse=True), 65)
        blind = start_with_false_proc(box)
    magic, nnp, seccomp, score = box.inside(LOOK)
    assert (magic, nnp, seccomp) == (PROC_MAGIC, "1", "2"), (magic, nnp, seccomp, score)
    return f"real procfs inside; with a false /proc around it coto says: {blind}"


def start_with_false_proc(box):
    """coto must not take what it finds there for the kernel's word: all walls, or none and an error."""
    argv, env = box.command(LOOK, flags=["--json"])
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-m", *OWN_USER]
    done = subprocess.run([*unshare, "sh", "-c", FALSE_PROC, "-", *argv], env=environment(env), timeout=60,
                          capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        result = json.loads(done.stdout)
        inside = json.loads(result["stdout"])
        if inside[:3] != [PROC_MAGIC, "1", "2"]:
            escaped("ESCAPE", f"it ran with {inside}")
        return "ok, with all walls"
    if b"LeakSanitizer has encountered" in done.stderr:
        return "nothing: a sanitizer's own end needs the real /proc"
    assert 64 <= done.returncode <= 75 and b"error" in done.stdout, done
    return f"status {done.returncode}"


def control(box):
    """coto that follows names mounts its /proc where the host's link leads; the program gets the image's."""
    with room() as here:
        script = "cat /proc/self/oom_score_adj /proc/mounts; stat -f -c %t /proc/"
        text = box.sh(script, flags=["--rootfs", elsewhere(here)], without=["beneath", "landlock"]).text
        assert text.startswith("fake\nfake\n") and f"{PROC_MAGIC:x}" not in text, text
    return "the program read a false oom_score_adj and mounts"
