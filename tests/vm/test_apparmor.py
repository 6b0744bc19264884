"""The profiles of deploy/apparmor: found, in force, and named when they are not."""
import contextlib
import json
import os
import subprocess

import pytest

from api.helpers import HAS_IDS, Service
from cli.helpers import ROOT, WAITER, coto, read, refused, run, run_json, running
from docker.test_without import StandIn

LABEL = "coto-sandbox (enforce)"
STRICT = "enis-sandbox-strict (enforce)"
CURRENT = "print(open('/proc/self/attr/apparmor/current').read().strip('\\0\\n'))"
# What an attack prints: the error's name, or "done".
TRY = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def answer(call, *args):
    try:
        value = call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return errno.errorcode[ctypes.get_errno()] if value == -1 else "done"
"""


@pytest.mark.parametrize("flags, label", [([], LABEL), (["--profile", "enis"], STRICT),
                                          (["--profile", "deepresearch"], LABEL)])
def test_profile_is_in_force(flags, label):
    """What coto says, what the program sees, what the kernel tells the host."""
    result = run_json(*flags, "--lang", "python", "-c", CURRENT)
    assert "error" not in result, result
    assert result["stdout"].strip() == label
    wall = result["walls"]["apparmor"]
    assert wall["up"] and wall["value"] == label, wall
    assert "apparmor" not in result["missing_walls"]
    with running(*flags, "--", *WAITER) as it:
        assert read(f"/proc/{it.program()}/attr/apparmor/current").strip() == label
        # coto-init and coto itself are not what the profile is for
        assert "coto-sandbox" not in read(f"/proc/{it.init()}/attr/apparmor/current")


def test_children_inherit_it():
    result = run_json("--", "sh", "-c", "sh -c 'cat /proc/self/attr/apparmor/current'")
    assert result["stdout"].strip() == LABEL


@pytest.mark.parametrize("attack, found", [
    ("open('/data/new', 'w')", "PermissionError"), ("open('/data/old').read()", "PermissionError"),
    ("os.listdir('/data')", "PermissionError")])
def test_strict_profile_ends_where_its_policy_ends(tmp_path, attack, found):
    """A directory that the policy of enis does not know; the wide profile is the control."""
    place = tmp_path / "data"
    place.mkdir()
    place.chmod(0o777)
    (place / "old").write_text("old")
    (place / "old").chmod(0o666)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if os.stat(folder).st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o555)
    code = f"import os\ntry:\n    {attack}\nexcept OSError as e: print(type(e).__name__)\nelse: print('done')"
    flags = ["--profile", "enis", "--mount", f"{place}:/data:rw"]
    assert run_json(*flags, "--lang", "python", "-c", code)["stdout"].strip() == found
    for wide in ("coto-sandbox", "none"):
        (place / "new").unlink(missing_ok=True)
        result = run_json(*flags, "--apparmor", wide, "--lang", "python", "-c", code)
        assert result["stdout"].strip() == "done", result


# With the other walls down the profile alone holds; without it too the attack gets through.
ATTACKS = {
    "capability": (["capabilities", "seccomp"], "print(answer(libc.sethostname, b'x', 1))", "EPERM", "done"),
    "mount": (["capabilities", "seccomp", "landlock"], "os.mkdir('/tmp/m')\n"
              "print(answer(libc.mount, b't', b'/tmp/m', b'tmpfs', 0, None))", "EACCES", "done"),
    "socket family": (["seccomp"], "print(answer(socket.socket, socket.AF_PACKET, socket.SOCK_RAW))",
                      "EACCES", "EPERM"),
    "signal to init": ([], "print(answer(os.kill, 1, 0))", "EACCES", "done"),
    "another profile": (["proc_masks", "root_read_only", "seccomp", "landlock"], "def take():\n"
                        "    with open('/proc/self/attr/apparmor/exec', 'wb', 0) as f:\n"
                        "        f.write(b'exec enis-sandbox-strict')\n"
                        "print(answer(take))", "EACCES", "done"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_profile_holds_alone(box, name):
    without, code, held, open_door = ATTACKS[name]
    box.behind = set()
    alone = box.python(TRY + code, without=without) if without else box.python(TRY + code)
    assert alone.text == held, alone
    control = box.python(TRY + code, without=[*without, "apparmor"])
    assert control.text == open_door, control
    assert not control.json["walls"]["apparmor"]["up"]


def test_profile_that_is_not_loaded_is_missing():
    result = run_json("--apparmor", "no-such-profile", "--", "true")
    wall = result["walls"]["apparmor"]
    assert result["verdict"] == "ok" and not wall["up"] and "apparmor" in result["missing_walls"]
    assert "not loaded" in wall["note"], wall


def test_required_profile_or_refusal():
    result = run_json("--require", "apparmor", "--", "true")
    assert result["walls"]["apparmor"]["up"]
    done = coto("run", "--require", "apparmor", "--apparmor", "no-such-profile", "--", "echo", "ran")
    refused(done, 72, "no-such-profile", "not loaded", "apparmor_parser")


def test_none_asks_for_none():
    result = run_json("--apparmor", "none", "--lang", "python", "-c", CURRENT)
    assert result["stdout"].strip() == "unconfined"
    assert not result["walls"]["apparmor"]["wanted"] and "apparmor" not in result["missing_walls"]


def test_doctor_finds_it():
    wall = json.loads(coto("doctor", "--json").out)["drivers"]["native"]["walls"]["apparmor"]
    assert wall["present"], wall


# ---- a service: its interpreters wait, are forked, and never execve ----

# What a copy of the waiting one has imported without being asked, what the kernel says of it, and a
# directory that only the profile keeps from it.
WAITED = f"""
import errno, os, sys
print('uuid' in sys.modules)
{CURRENT}
try:
    os.listdir('/var')
except OSError as error:
    print(errno.errorcode[error.errno])
else:
    print('done')
"""


def waiting(*flags):
    return Service("--high-isolation=none", "--pool-min=2", "--pool-max=2", *flags)


@contextlib.contextmanager
def confined_by(profile):
    """What this thread starts meanwhile."""
    with open("/proc/thread-self/attr/apparmor/exec", "wb", 0) as ask:
        ask.write(f"exec {profile}".encode())
    yield


def has_no_new_privs(service):
    return service.get("/api/v1/capabilities").json["launcher"]["no_new_privs"]


def ran(service, code, **more):
    result = service.run(code, **more).json
    assert result.get("verdict") == "ok", result
    return result


@pytest.mark.parametrize("profile, label, listed", [("default", LABEL, "done"), ("enis", STRICT, "EACCES")])
def test_an_interpreter_that_waited_is_under_it(profile, label, listed):
    with waiting(f"--profile={profile}") as service:
        ahead, cold = ran(service, WAITED), ran(service, WAITED, cold=True)
        # Whose launcher has no_new_privs: from unconfined every change is taken all the same.
        assert has_no_new_privs(service) == (ROOT or not HAS_IDS)
        box = service.create()["sandbox_id"]
        first, second = (service.post(f"/api/v1/sandbox/{box}/execute", code=code).json
                         for code in (f"kept = 41\n{WAITED}", f"print(kept + 1)\n{CURRENT}"))
        service.post(f"/api/v1/sandbox/{box}/execute", code="exit 0", language="sh")
        third, fourth = (service.post(f"/api/v1/sandbox/{box}/execute", code=code).json
                         for code in (f"kept = 42\n{WAITED}", f"print(kept + 1)\n{CURRENT}"))
        assert service.stop() == 0, service.messages
    assert ahead["stdout"].split("\n")[:3] == ["True", label, listed], ahead
    assert cold["stdout"].split("\n")[:3] == ["False", label, listed], cold
    for result in (ahead, cold):
        wall = result["walls"]["apparmor"]
        assert wall["up"] and wall["value"] == label and "apparmor" not in result["missing_walls"]
    assert first["output"].split("\n")[:3] == ["True", label, listed], first
    assert second["output"].split("\n")[:2] == ["42", label], second
    assert third["state_kept"] and third["output"].split("\n")[1:3] == [label, listed], third
    assert fourth["output"].split("\n")[:2] == ["43", label], fourth
    # The control: nothing but the profile keeps that directory.
    control = run_json("--profile", profile, "--apparmor", "none", "--lang", "python", "-c", WAITED)
    assert control["stdout"].split("\n")[1:3] == ["unconfined", "done"]


def test_what_waited_has_no_proc_to_write_to():
    """The one in which the profile was asked for: neither the first program has it nor the second."""
    code = """
import os
for fd in os.listdir('/proc/self/fd'):
    try:
        print(os.readlink(f'/proc/self/fd/{fd}').split(':')[0], end=' ')
        os.stat('thread-self', dir_fd=int(fd))
        print('proc')
    except OSError:
        pass
"""
    with waiting() as service:
        box = service.create()["sandbox_id"]
        said = [service.post(f"/api/v1/sandbox/{box}/execute", code=code).json["output"] for _ in range(2)]
        said.append(ran(service, code)["stdout"])
        assert service.stop() == 0, service.messages
    for text in said:
        # listing it is what has it open for that moment, by its name in the sandbox
        assert text.count("pipe") == 3 and "proc" not in text.replace("/proc/", ""), said


@pytest.mark.parametrize("flags", [[], ["--profile", "enis"]])
def test_container_of_an_engine_is_asked_for_with_the_wide_one(tmp_path, flags):
    """Whose profile is coto-init's too; who may not read what is loaded leaves it to the engine."""
    with StandIn(tmp_path / "s") as engine:
        run("--isolation", "docker", "--image", "x", *flags, "--", "true", env=engine.env)
        engine.shutdown()
    asked = [text for text in engine.body["HostConfig"]["SecurityOpt"] if text.startswith("apparmor")]
    assert asked == (["apparmor=coto-sandbox"] if ROOT else [])


if ROOT:
    def test_what_waited_where_the_profile_cannot_be_had():
        """A service that is confined itself: neither way gets another profile. It is told, or refused."""
        text = """abi <abi/3.0>,
profile coto-test-outer flags=(attach_disconnected) {
  /** rwklmix, / r, capability, network, mount, remount, umount, pivot_root, signal, ptrace, unix,
}
"""
        subprocess.run(["apparmor_parser", "-r"], input=text.encode(), check=True)
        try:
            with confined_by("coto-test-outer"), waiting() as service:
                result = ran(service, WAITED)
                box = service.create()["sandbox_id"]
                kept = service.post(f"/api/v1/sandbox/{box}/execute", code=WAITED)
                assert not has_no_new_privs(service)  # which would keep it from changing to any other
                assert service.stop() == 0, service.messages
        finally:
            subprocess.run(["apparmor_parser", "-R"], input=text.encode(), check=True)
        wall = result["walls"]["apparmor"]
        assert not wall["up"] and "apparmor" in result["missing_walls"], wall
        assert "may not be taken on" in wall["note"], wall
        assert result["stdout"].split("\n")[:2] == ["False", "coto-test-outer (enforce)"], result
        assert kept.status == 412 and "may not be taken on" in kept.json["message"], kept

    def test_profile_that_only_complains_is_no_wall():
        text = "profile coto-test-complain flags=(complain) { /** rix, }\n"
        subprocess.run(["apparmor_parser", "-r"], input=text.encode(), check=True)
        try:
            result = run_json("--apparmor", "coto-test-complain", "--", "true")
            done = coto("run", "--require", "apparmor", "--apparmor", "coto-test-complain", "--", "true")
        finally:
            subprocess.run(["apparmor_parser", "-R"], input=text.encode(), check=True)
        assert not result["walls"]["apparmor"]["up"] and "apparmor" in result["missing_walls"]
        refused(done, 72, "only complains")

    def test_kernel_enforces_every_profile_of_the_file():
        loaded = set(read("/sys/kernel/security/apparmor/profiles").splitlines())
        assert {LABEL, STRICT} <= loaded
