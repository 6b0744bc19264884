"""The profiles of deploy/apparmor: found, in force, and named when they are not."""
import json
import os
import subprocess

import pytest

from cli.helpers import ROOT, WAITER, coto, read, refused, run_json, running

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


if ROOT:
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
