"""FS, ML: what can be read, changed or found from inside."""
import os
import stat

import pytest

from cli.helpers import inside, ok, refused, run, run_json, sh

TRY = """
import ctypes, errno, json, os, stat, sys
def attempt(call, *args):
    try:
        call(*args)
        return "done"
    except OSError as reason:
        return errno.errorcode[reason.errno]
"""


def attempts(lines, *flags, **more):
    """name -> 'done' or the errno's name; each line is `name: expression`."""
    code = TRY + "out = {}\n" + "\n".join(f"out[{name!r}] = {text}" for name, text in lines.items())
    return inside(code + "\nprint(json.dumps(out))", *flags, **more)


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/gshadow", "/root", "/home", "/etc/ssh", "/var/lib",
                                  "/run/secrets", "/var/run/docker.sock", "/etc/machine-id", "/sys",
                                  "/sys/fs/cgroup", "/sys/kernel/debug", "/sys/kernel/tracing",
                                  "/sys/fs/bpf", "/dev/kmsg", "/dev/mem", "/dev/kvm", "/dev/vda",
                                  "/dev/fuse", "/dev/mqueue", "/proc/kcore/x"])
def test_fs_01_ps_09_ps_11_not_there(path):
    assert sh(f"if [ -e {path} ]; then echo there; else echo absent; fi") == "absent\n"


def test_fs_02_canary(tmp_path):
    """A planted file is found through no directory and no /proc link; mounted, it is."""
    (tmp_path / "canary-7431").write_text("bird")
    tmp_path.chmod(0o755)
    find = ("find / -xdev -name canary-7431 2>/dev/null; "
            "for p in /proc/[0-9]*; do find $p/root/tmp $p/cwd -name canary-7431 2>/dev/null; done; "
            "find /tmp /workspace /dev /usr/local /mnt -name canary-7431 2>/dev/null; true")
    assert sh(find) == ""
    assert "canary" in sh(find, "--mount", f"{tmp_path}:/mnt/shown")


@pytest.mark.parametrize("place", ["/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/var", "/run"])
def test_fs_03_nothing_changes_outside_the_writable_places(place):
    found = attempts({
        "create": f"attempt(os.open, '{place}/x', os.O_CREAT | os.O_WRONLY)",
        "mkdir": f"attempt(os.mkdir, '{place}/d')",
        "symlink": f"attempt(os.symlink, 'a', '{place}/l')",
        "tmpfile": f"attempt(os.open, '{place}', os.O_TMPFILE | os.O_RDWR)",
        "date": f"attempt(os.utime, '{place}', (1, 1))",
        "mode": f"attempt(os.chmod, '{place}', 0o777)",
    })
    assert "done" not in found.values(), found


def test_fs_03_control():
    found = attempts({"create": "attempt(os.open, '/workspace/x', os.O_CREAT | os.O_WRONLY)",
                      "date": "attempt(os.utime, '/workspace', (1, 1))",
                      "tmpfile": "attempt(os.open, '/tmp', os.O_TMPFILE | os.O_RDWR)"})
    assert set(found.values()) == {"done"}


def test_fs_03_device_nodes_keep_their_dates():
    """They are the host's own nodes: touching one would show there. Writing still works."""
    before = {name: os.stat(f"/dev/{name}").st_mtime_ns for name in ("null", "zero", "full")}
    found = attempts({name: f"attempt(os.utime, '/dev/{name}')" for name in before})
    assert set(found.values()) == {"EROFS"}
    assert before == {name: os.stat(f"/dev/{name}").st_mtime_ns for name in before}
    assert sh("echo lost > /dev/null; echo kept") == "kept\n"


def test_fs_04_no_mount_is_shared():
    table = sh("cat /proc/self/mountinfo")
    assert "shared:" not in table and "master:" not in table and "propagate_from" not in table
    for line in table.splitlines():
        place, flags = line.split()[4:6]
        assert "nosuid" in flags.split(",")
        assert "nodev" in flags.split(",") or place.startswith("/dev/")


def test_fs_05_devices_are_these():
    found = inside("import json, os, stat\n"
                   "names = [os.path.join(top, n) for top, _, files in os.walk('/dev') for n in files]\n"
                   "modes = {n: os.lstat(n).st_mode for n in names}\n"
                   "print(json.dumps([n for n, m in modes.items() if stat.S_ISCHR(m) or stat.S_ISBLK(m)]))")
    assert set(found) == {"/dev/full", "/dev/null", "/dev/urandom", "/dev/zero", "/dev/pts/ptmx"}


def test_fs_11_hard_links():
    found = attempts({"out": "attempt(os.link, '/usr/bin/env', '/workspace/env')",
                      "etc": "attempt(os.link, '/etc/passwd', '/workspace/passwd')",
                      "own": "[open('/workspace/a', 'w').close(), attempt(os.link, 'a', 'b')][1]"})
    assert found == {"out": "EXDEV", "etc": "EXDEV", "own": "done"}


def test_fs_13_odd_names():
    found = attempts({
        "long": "attempt(os.open, 'a' * 4352, 0)", "format": "attempt(os.open, '%s%n%s', 0)",
        "bytes": "attempt(os.open, b'\\xff\\xfe', 0)", "empty": "attempt(os.open, '', 0)",
        "null": "(ctypes.CDLL(None, use_errno=True).open(None, 0), errno.errorcode[ctypes.get_errno()])[1]",
    })
    assert found == {"long": "ENAMETOOLONG", "format": "ENOENT", "bytes": "ENOENT", "empty": "ENOENT",
                     "null": "EFAULT"}


NOEXEC = """
import os, shutil, json
def attempt(name):
    shutil.copy("/bin/true", name); os.chmod(name, 0o755)
    pid = os.fork()
    if pid == 0:
        try: os.execv(name, ["true"])
        except OSError: os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def memory():
    try: fd = os.memfd_create("x")
    except OSError: return 9
    os.write(fd, open("/bin/true", "rb").read())
    pid = os.fork()
    if pid == 0:
        try: os.execve(fd, ["true"], {})
        except OSError: os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps([attempt("/workspace/t"), attempt("/tmp/t"), attempt("/dev/shm/t"), memory()]))
"""


def test_fs_16_noexec():
    assert inside(NOEXEC, "--noexec") == [9, 9, 9, 9]
    assert inside(NOEXEC) == [0, 0, 0, 0]


def test_fs_17_attributes():
    found = attempts({
        "capability": "attempt(os.setxattr, '/workspace', 'security.capability', b'x' * 20)",
        "trusted": "attempt(os.setxattr, '/workspace', 'trusted.x', b'x')",
        "usr": "attempt(os.setxattr, '/usr/bin/env', 'user.x', b'x')",
        "chown": "attempt(os.chown, '/workspace', 0, 0)"})
    assert "done" not in found.values(), found


@pytest.mark.parametrize("place", ["/proc/self/fd/3", "/proc/self/cwd", "/dev/fd", "/proc"])
def test_ml_02_workspace_is_no_magic_link(place):
    refused(run("--workdir", place, "--", "true"), 65)


def test_ar_artifacts_of_a_swarm(tmp_path):
    """AR-03: links and files that change places until the very end. Never a byte of /etc."""
    out = tmp_path / "out"
    out.mkdir()
    code = """
import os
os.chdir("output")
for i in range(40): open(f"g{i}", "w").write("mine")
for k in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            for i in range(k, 40, 3):
                try:
                    os.unlink(f"g{i}"); os.symlink("/etc/passwd", f"g{i}")
                    os.unlink(f"g{i}"); open(f"g{i}", "w").write("mine")
                except OSError: pass
import time; time.sleep(0.1)
"""
    for _ in range(3):
        result = run_json("--artifacts", out, "--lang", "python", "-c", code)
        assert result["verdict"] == "ok"
        for path in out.iterdir():
            assert stat.S_ISREG(path.lstat().st_mode) and path.read_text() in ("mine", "")


def test_di_03_sparse_files(tmp_path):
    out = tmp_path / "out"
    result = run_json("--disk", "1m", "--artifacts", out, "--", "sh", "-c",
                      "cd output; truncate -s 4E a; truncate -s 100G b; echo x > c")
    assert [one["name"] for one in result["artifacts"]] == ["c"] and result["artifacts_skipped"] == 2


def test_fs_18_set_id_bits_stay_inside(tmp_path):
    out = tmp_path / "out"
    ok(run("--artifacts", out, "--", "sh", "-c", "cp /bin/true output/t; chmod 6777 output/t"))
    assert stat.S_IMODE((out / "t").stat().st_mode) & 0o7000 == 0
