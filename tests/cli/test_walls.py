"""The walls, read from inside the sandbox and from the host's /proc (R2.2 to R2.5).

Every refusal has its positive control: the same probe outside, or in a sandbox
with that one thing granted, succeeds.
"""
import ctypes
import json
import os
import re
import socket
import subprocess

import pytest

from .helpers import (CGROUPS, COTO, CORE, ROOT, SOURCE, WAITER, descendants, environment, inside, on_terminal, only, read,
                      run, run_json, running, sh, status_of)

NAMESPACES = {"user": "user_namespace", "pid": "pid_namespace", "mnt": "mount_namespace",
              "net": "net_namespace", "ipc": "ipc_namespace", "uts": "uts_namespace",
              "cgroup": "cgroup_namespace"}
SANDBOX_UIDS = range(0x70000000, 0x80000000)


def outside(code):
    """The same Python text on the host, without a sandbox."""
    done = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, timeout=20)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


# ---- namespaces and identity ----

def test_namespaces_differ_from_the_host():
    with running("--", *WAITER) as it:
        program = it.program()
        mine = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
        theirs = {name: os.readlink(f"/proc/{program}/ns/{name}") for name in NAMESPACES}
        assert all(mine[name] != theirs[name] for name in NAMESPACES), theirs
        with running("--", *WAITER) as other:
            another = {name: os.readlink(f"/proc/{other.program()}/ns/{name}") for name in NAMESPACES}
            assert all(another[name] != theirs[name] for name in NAMESPACES)


def test_namespaces_are_those_the_result_tells():
    code = ("import os, json\nprint(json.dumps({n: os.readlink('/proc/self/ns/' + n) for n in "
            f"{list(NAMESPACES)}}}))")
    result = run_json("--lang", "python", "-c", code)
    seen = json.loads(result["stdout"])
    assert {name: result["walls"][wall]["value"] for name, wall in NAMESPACES.items()} == seen


def test_uid_inside_and_on_the_host():
    """R2.2: an unprivileged user; root's sandboxes have host uids of their own."""
    with running("--user", "4321:8765", "--", *WAITER) as it, running("--", *WAITER) as other:
        for pid in (it.program(), it.init()):
            uids = set(status_of(pid)["Uid"].split())
            gids = set(status_of(pid)["Gid"].split())
            assert len(uids) == len(gids) == 1
            host = int(uids.pop())
            if ROOT:
                assert host in SANDBOX_UIDS and int(gids.pop()) in SANDBOX_UIDS
                assert host != int(status_of(other.program())["Uid"].split()[0])
            else:
                assert host == os.geteuid()
            assert status_of(pid)["Groups"].strip() in ("", *(["65533"] if not ROOT else []))
    code = "import os, json; print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups()]))"
    uid, gid, groups = inside(code, "--user", "4321:8765")
    assert set(uid) == {4321} and set(gid) == {8765} and groups in ([], [8765])


def test_unique_uid_is_told():
    result = run_json("--", "true")
    assert result["walls"]["unique_uid"]["up"] == ROOT
    assert ("unique_uid" in result["missing_walls"]) == (not ROOT)


def test_root_is_never_given():
    done = run("--user", "0", "--", "id", "-u")
    assert done.status == 65 and b"--user" in done.err, done


def test_names_in_passwd_and_host():
    assert sh("id -un; hostname; echo ~", "--user-name", "student", "--hostname", "classroom").split() \
        == ["student", "classroom", "/workspace"]
    assert sh("hostname").strip() == "coto" != os.uname().nodename


# ---- privilege ----

def test_capabilities_are_empty_in_all_sets():
    status = dict(line.split(":\t") for line in sh("cat /proc/self/status").splitlines())
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    with running("--", *WAITER) as it:
        seen = status_of(it.program())
        assert {int(seen[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert seen["NoNewPrivs"] == "1" and seen["Seccomp"] == "2"
        init = status_of(it.init())
        assert init["NoNewPrivs"] == "1" and int(init["CapEff"], 16) == 0


def test_capabilities_added_back_by_name():
    """R2.4: the profile adds four back, and no more."""
    four = 1 << 0 | 1 << 3 | 1 << 6 | 1 << 7  # chown, fowner, setgid, setuid
    status = dict(line.split(":\t") for line in
                  sh("cat /proc/self/status", "--profile", "deepresearch").splitlines())
    assert int(status["CapBnd"], 16) == four and int(status["CapEff"], 16) in (0, four)
    assert int(status["CapPrm"], 16) & ~four == 0
    result = run_json("--cap-add", "chown", "--", "true")
    assert int(result["walls"]["capabilities"]["value"], 16) == 1
    assert run("--cap-add", "sys_admin", "--", "true").status == 65


def test_added_capability_works_and_counts_inside_only():
    code = "import os\nopen('f', 'w').close()\nos.chmod('f', 0o600)\nos.chown('f', 10000, 10000)\nprint(1)"
    assert inside(code, "--cap-add", "chown,fowner") == 1
    with running("--cap-add", "chown,setuid", "--", *WAITER) as it:
        assert int(status_of(it.program())["CapBnd"], 16) == 1 << 0 | 1 << 7
        # in a user namespace of its own: they count for nothing of the host
        assert os.readlink(f"/proc/{it.program()}/ns/user") != os.readlink("/proc/self/ns/user")


def test_set_id_programs_give_nothing():
    find = "find /usr/bin -perm -4000 -name 'su*' | head -n 1"
    assert subprocess.run(find, shell=True, capture_output=True).stdout
    assert sh("su -c id root </dev/null >/dev/null 2>&1; echo $?").strip() != "0"


# ---- file system ----

def mount_lines(*flags):
    rows = []
    for line in sh("cat /proc/self/mountinfo", *flags).splitlines():
        left, right = line.split(" - ")
        rows.append((left.split()[4], set(left.split()[5].split(",")), right.split()[0]))
    return rows


WRITABLE = {"/workspace", "/tmp", "/dev/shm"}


def test_every_mount_is_nosuid_and_nodev():
    rows = mount_lines()
    assert len(rows) > 5
    for at, options, kind in rows:
        assert "nosuid" in options, at
        # device nodes and terminals are themselves the devices
        assert "nodev" in options or kind == "devpts" or kind == "devtmpfs" or at.startswith("/dev/"), at


def test_only_the_writable_places_are_mounted_writable():
    for at, options, kind in mount_lines():
        if at not in WRITABLE and not at.startswith("/dev/"):
            assert "ro" in options, (at, options, kind)


def test_masked_files_cannot_be_unmasked():
    code = ("import os, json\ndone = []\nfor n in ('keys', 'kallsyms', 'timer_list'):\n    try:\n"
            "        os.chmod('/proc/' + n, 0o600); done.append(n)\n    except OSError: pass\n"
            "print(json.dumps(done))")
    assert inside(code) == []


WRITE = ("import os, json\ndone = []\nfor at in {!r}:\n    try:\n"
         "        open(os.path.join(at, 'probe'), 'x').close(); done.append(at)\n    except OSError: pass\n"
         "print(json.dumps(done))")


def test_root_is_read_only():
    """R2.2: no file can be made anywhere but in the workspace, /tmp and /dev/shm."""
    places = sh("find / -xdev -type d 2>/dev/null | grep -v ^/proc | head -n 300").split("\n")[:-1]
    places += ["/usr", "/usr/bin", "/usr/lib", "/etc", "/etc/ssl", "/dev", "/proc", "/run", "/var", "/sys",
               "/bin", "/workspace", "/workspace/output", "/tmp", "/dev/shm"]
    assert set(inside(WRITE.format(sorted(set(places))))) == WRITABLE | {"/workspace/output"}
    assert run("--", "sh", "-c", "mkdir /new").status != 0
    assert run("--", "sh", "-c", "echo x >> /etc/passwd").status != 0
    assert run("--", "sh", "-c", "rm /bin").status != 0


def test_nothing_of_the_host_is_there(tmp_path):
    """No home, no state, no keys, no shadow file; passwd and its like are fresh."""
    (tmp_path / "secret").write_text("s")
    paths = ["/home", "/root", "/srv", "/mnt", "/media", "/boot", "/opt", "/etc/shadow", "/etc/gshadow",
             "/etc/ssh", "/etc/ssl/private", "/var/lib", "/var/log", "/run/systemd", "/sys/kernel",
             "/etc/machine-id", "/etc/sudoers", "/var/run/docker.sock", str(tmp_path), str(SOURCE)]
    seen = inside(f"import os, json; print(json.dumps([p for p in {paths} if os.path.lexists(p)]))")
    assert seen == []
    there = [path for path in paths if os.path.lexists(path)]
    assert len(there) > 5, "the positive control: the host has them"
    assert sh("ls -A /run; ls -A /var").split() == ["tmp"]
    host = read("/etc/passwd")
    inner = sh("cat /etc/passwd")
    assert "sandbox:x:10000" in inner and "daemon:" not in inner and "daemon:" in host
    assert "nameserver" not in sh("cat /etc/resolv.conf")


def test_temporary_directory_is_its_own():
    name = f"/tmp/coto-test-probe-{os.getpid()}"
    open(name, "w").close()
    try:
        assert sh("ls -A /tmp") == ""
    finally:
        os.unlink(name)


# ---- /proc ----

def test_proc_shows_own_processes_only():
    pids = [int(word) for word in sh("ls /proc").split() if word.isdigit()]
    assert 1 in pids and len(pids) <= 3
    assert len([name for name in os.listdir("/proc") if name.isdigit()]) > 3
    code = ("import os, json\nkilled = []\nfor pid in range(2, 4000):\n    if pid != os.getpid():\n        try:\n"
            "            os.kill(pid, 0); killed.append(pid)\n        except OSError: pass\n"
            "print(json.dumps(killed))")
    assert inside(code) == []


def test_sensitive_proc_files_are_masked():
    names = ["kcore", "keys", "key-users", "timer_list", "kallsyms", "sysrq-trigger", "kmsg", "interrupts",
             "scsi", "latency_stats", "sched_debug", "acpi/wakeup", "sys/kernel/core_pattern"]
    code = ("import json\nopen_ = {}\nfor n in %r:\n    for mode in ('rb', 'r+b'):\n        try:\n"
            "            if open('/proc/' + n, mode).read(1) or mode == 'r+b': open_[n] = mode\n"
            "        except OSError: pass\nprint(json.dumps(open_))")
    seen = inside(code % names)
    assert set(seen) <= {"acpi/wakeup", "sys/kernel/core_pattern"} and "r+b" not in seen.values(), seen
    assert read("/proc/keys") is not None and read("/proc/kallsyms")


def test_proc_sys_is_read_only():
    code = ("import json\ntry:\n    open('/proc/sys/kernel/hostname', 'w'); e = 0\n"
            "except OSError as error: e = error.errno\nprint(json.dumps(e))")
    assert inside(code) in (13, 30)


def test_init_cannot_be_looked_into():
    names = ["mem", "environ", "maps", "fd", "exe", "cwd", "root", "syscall", "stack", "auxv"]
    code = ("import os, json\ndone = []\nfor n in %r:\n    p = '/proc/%%s/' + n\n    try:\n"
            "        (os.listdir if n == 'fd' else os.readlink if n in ('exe', 'cwd', 'root') else"
            " (lambda q: open(q, 'rb').read(0 if n == 'mem' else 1)))(p %% WHO); done.append(n)\n"
            "    except OSError: pass\nprint(json.dumps(done))") % names
    assert inside(code.replace("WHO", "1")) == []
    assert {"mem", "environ", "maps", "fd", "exe"} <= set(inside(code.replace("WHO", "'self'")))


def test_init_cannot_be_harmed():
    assert sh("kill -9 1; kill -TERM 1; kill -STOP 1; sleep 0.2; echo alive").strip() == "alive"


def test_init_has_no_environment_and_few_descriptors():
    with running("--", *WAITER, env={"SECRET_OF_CALLER": "x"}) as it:
        init = it.init()
        if ROOT:
            assert open(f"/proc/{init}/environ", "rb").read() == b""
            assert len(os.listdir(f"/proc/{init}/fd")) <= 12
        else:
            with pytest.raises(PermissionError):  # not even its own user's
                open(f"/proc/{init}/environ", "rb").read()


# ---- network ----

CONNECT = ("import socket, json\ntry:\n    socket.create_connection(('{}', {}), 3); e = 'connected'\n"
           "except OSError as error: e = error.strerror or str(error)\nprint(json.dumps(e))")


def test_no_network():
    """R2.2: a port of the host that the host itself can reach is out of reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert outside(CONNECT.format("127.0.0.1", port)) == "connected"
        assert inside(CONNECT.format("127.0.0.1", port)) != "connected"
    for address in ("1.1.1.1", "10.0.0.1", "169.254.169.254"):
        assert inside(CONNECT.format(address, 80)) != "connected"


def test_only_a_loopback():
    devices = [line.split(":")[0].strip() for line in sh("cat /proc/net/dev").splitlines()[2:]]
    assert devices == ["lo"]
    assert len(sh("cat /proc/net/route").splitlines()) <= 1


def test_loopback_inside_works():
    code = ("import socket, threading, json\ns = socket.create_server(('127.0.0.1', 0))\n"
            "threading.Thread(target=lambda: s.accept()[0].sendall(b'hi')).start()\n"
            "print(json.dumps(socket.create_connection(s.getsockname()).recv(2).decode()))")
    assert inside(code) == "hi"


def test_abstract_sockets_of_the_host_are_out_of_reach():
    name = f"coto-test-{os.getpid()}"
    code = ("import socket, json\ns = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect('\\0' + %r); e = 0\n"
            "except OSError as error: e = error.errno\nprint(json.dumps(e))" % name)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        assert outside(code) == 0
        assert inside(code) != 0


def test_unusual_socket_families_are_refused():
    families = {"AF_PACKET": 17, "AF_NETLINK": 16, "AF_VSOCK": 40, "AF_ALG": 38, "AF_BLUETOOTH": 31, "AF_XDP": 44}
    code = ("import socket, json\nmade = []\nfor name, number in %r.items():\n"
            "    for kind in (1, 2, 3, 5):\n        try: socket.socket(number, kind); made.append(name)\n"
            "        except OSError: pass\nprint(json.dumps(made))" % families)
    assert set(inside(code)) <= {"AF_NETLINK"}


# ---- descriptors and environment ----

def test_no_inherited_descriptor(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    fd = os.open(secret, os.O_RDONLY)
    os.set_inheritable(fd, True)
    code = "import os, json; print(json.dumps(sorted(int(n) for n in os.listdir('/proc/self/fd'))))"
    try:
        command = ["run", "--lang", "python", "-c", code]
        control = subprocess.run(["/usr/bin/python3", "-c", code], pass_fds=[fd], capture_output=True)
        assert fd in json.loads(control.stdout)
        done = subprocess.run([COTO, *command], pass_fds=[fd], capture_output=True, env=environment(),
                              timeout=20)
        assert json.loads(done.stdout) == [0, 1, 2, 3]  # 3 is the listing itself
    finally:
        os.close(fd)


def test_no_inherited_environment():
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    seen = inside(code, env={"SECRET": "s3cret", "LD_PRELOAD_X": "1", "PYTHONPATH": "/x"})
    assert set(seen) - {"LC_CTYPE"} == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "COTO_OUTPUT"}
    assert "s3cret" not in json.dumps(seen)
    seen = inside(code, "--env", "GIVEN=by name", "--env", "HOME=/tmp")
    assert seen["GIVEN"] == "by name" and seen["HOME"] == "/tmp"


def test_no_controlling_terminal():
    """Field 7 of /proc/self/stat: the caller has a terminal, the program has none."""
    code = "print('tty', open('/proc/self/stat').read().rsplit(')')[1].split()[4])"
    status, seen = on_terminal("-q", "--lang", "python", "-c", code)
    assert (status, seen) == (0, b"tty 0\n")


# ---- system calls (R2.5) ----

CALL = ("import ctypes, json, os, signal\nlibc = ctypes.CDLL(None, use_errno=True)\nfound = {}\n"
        "for name, args in %r.items():\n    pid = os.fork()\n    if pid == 0:\n"
        "        r = libc.syscall(*[ctypes.c_long(a) for a in args])\n"
        "        os._exit(0 if r >= 0 else ctypes.get_errno())\n"
        "    status = os.waitpid(pid, 0)[1]\n"
        "    found[name] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)\n"
        "print(json.dumps(found))")
# x86-64 numbers; arguments that do nothing where they are allowed
BLOCKED = {"mount": (165, 0, 0, 0, 0, 0), "umount2": (166, 0, 0), "reboot": (169, 0, 0, 0, 0),
           "init_module": (175, 0, 0, 0), "finit_module": (313, -1, 0, 0), "delete_module": (176, 0, 0),
           "ptrace": (101, 0, 0, 0, 0), "unshare": (272, 0x10000000), "setns": (308, -1, 0),
           "pivot_root": (155, 0, 0), "chroot": (161, 0), "bpf": (321, 0, 0, 0), "kexec_load": (246, 0, 0, 0, 0),
           "perf_event_open": (298, 0, 0, -1, -1, 0), "keyctl": (250, 0, -3, 1), "add_key": (248, 0, 0, 0, 0, 0),
           "userfaultfd": (323, 0), "io_uring_setup": (425, 1, 0), "swapon": (167, 0, 0),
           "open_by_handle_at": (304, -1, 0, 0), "fsopen": (430, 0, 0), "move_mount": (429, -1, 0, -1, 0, 0),
           "open_tree": (428, -100, 0, 0), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
           "acct": (163, 0), "settimeofday": (164, 0, 0), "clock_settime": (227, 0, 0), "iopl": (172, 3)}
REFUSALS = {1, 38, 95, -31}  # EPERM, ENOSYS, EOPNOTSUPP, killed by SIGSYS


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers are those of x86-64")
def test_blocked_system_calls():
    """R2.5: mount, umount, reboot, init_module, delete_module, ptrace among them."""
    found = inside(CALL % BLOCKED)
    allowed = {name: answer for name, answer in found.items() if answer not in REFUSALS}
    assert not allowed, allowed


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers are those of x86-64")
def test_filter_is_what_blocks_ptrace():
    """The positive control: PTRACE_TRACEME works in the debug tier and outside."""
    call = {"ptrace": BLOCKED["ptrace"]}
    assert outside(CALL % call) == {"ptrace": 0}
    assert inside(CALL % call, "--seccomp", "debug") == {"ptrace": 0}
    assert inside(CALL % call)["ptrace"] in REFUSALS
    assert inside(CALL % {"getpid": (39,)}) == {"getpid": 0}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers are those of x86-64")
def test_filters_are_loaded_in_the_debug_tier_only():
    """A null pointer loads nothing: EFAULT (14) from who would have loaded it, EINVAL (22) and ENOSYS (38) else."""
    call = {"seccomp": (317, 1, 0, 0), "prctl": (157, 22, 2, 0, 0, 0)}
    assert outside(CALL % call) == inside(CALL % call, "--seccomp", "debug") == {"seccomp": 14, "prctl": 14}
    for tier in ("strict", "default"):
        assert inside(CALL % call, "--seccomp", tier) == {"seccomp": 38, "prctl": 22}


def test_new_user_namespace_is_refused():
    assert run("--", "unshare", "--user", "true").status != 0
    assert subprocess.run(["unshare", "--user", "true"]).returncode == 0


def test_every_tier_runs_hello():
    for tier in ("strict", "default", "debug"):
        assert run("--seccomp", tier, "--", "echo", tier).out.decode().strip() == tier
        assert inside("print(2 + 2)", "--seccomp", tier) == 4


def test_refusals_are_no_lines_in_the_audit_log_of_the_host():
    """Landlock from ABI 7 on writes one for each, also for rules that a program makes for itself, as fast as it calls:
    0x5 is LOG_SAME_EXEC_OFF and LOG_SUBDOMAINS_OFF. Turning the log on to look would concern the whole host."""
    abi = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)
    trace = subprocess.run(["strace", "-f", "-qq", "-X", "raw", "-e", "signal=none", "-e", "trace=landlock_restrict_self",
                            COTO, "run", "--idmap", "single", "--", "true"],
                           capture_output=True, text=True, env=environment(), timeout=60)
    flags = re.findall(r"landlock_restrict_self\(\w+, (\w+)\) = 0", trace.stderr)
    assert [int(word, 0) for word in flags] == [0x5 if abi >= 7 else 0], trace


# ---- and what is told ----

def test_all_core_walls_are_up():
    walls = run_json("--", "true")["walls"]
    assert {name for name in CORE if not walls[name]["up"]} == set()
    assert walls["landlock"]["value"].startswith("ABI ")
    assert walls["uid"]["value"].startswith("10000 inside, ")


def walls_in_the_kernel(*flags):
    with running(*flags, "--", *WAITER) as it:
        pid = it.program()
        status = status_of(pid)
        return [status[key].split() for key in ("Seccomp", "Seccomp_filters", "NoNewPrivs", "CapPrm", "CapBnd")] + \
            [sorted(name for name in os.listdir(f"/proc/{pid}/ns")
                    if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"))]


def test_every_tier_keeps_the_other_walls():
    found = [walls_in_the_kernel("--seccomp", tier) for tier in ("strict", "default", "debug")]
    assert found[0] == found[1] == found[2] and found[0][0] == ["2"] and "net" in found[0][5], found


def test_what_may_be_missing_changes_no_wall_that_is_up():
    """Every wall may be missing: where the host has it, it is up all the same."""
    every = ",".join(run_json("--", "true")["walls"])
    assert walls_in_the_kernel("--allow-missing", every) == walls_in_the_kernel()


def test_process_names_tell_the_story():
    with running("--", *WAITER) as it:
        names = [row[1] for row in descendants(it.process.pid).values()]
        assert any(name.startswith("coto-init") for name in names), names
        assert ("coto-guard" in names) == CGROUPS


@only(ROOT)
def test_a_root_that_may_not_write_to_the_files_of_others():
    """As in a unit or a container with few capabilities: the id map of a sandbox is its own."""
    def drop():
        for number in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            assert ctypes.CDLL(None).prctl(24, number, 0, 0, 0) == 0
    for _ in range(5):
        assert run_json("--", "true", preexec_fn=drop)["missing_walls"] == run_json("--", "true")["missing_walls"]
