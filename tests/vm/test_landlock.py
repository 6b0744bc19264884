"""Landlock at the ABI of this kernel: all of it, and no more than there is."""
import ctypes

import pytest

from cli.helpers import inside, run_json

CREATE_RULESET, VERSION = 444, 1
libc = ctypes.CDLL(None, use_errno=True)
ABI = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)


def test_whole_abi_is_used():
    wall = run_json("--require", "landlock", "--", "true")["walls"]["landlock"]
    assert ABI >= 2 and wall["up"] and wall["value"] == f"ABI {ABI}"


# What the rules of the sandbox's own mounts and uid would let through.
REACH = ("import os, errno, json\nfound = {}\n"
         "def attempt(name, call):\n    try: call(); found[name] = 'done'\n"
         "    except OSError as e: found[name] = errno.errorcode[e.errno]\n"
         "attempt('write', lambda: open('/new', 'w'))\n"
         "attempt('directory', lambda: os.mkdir('/usr/new'))\n"
         "open('/workspace/a', 'w').close(); os.mkdir('/workspace/d')\n"
         "attempt('refer', lambda: os.rename('/workspace/a', '/workspace/d/a'))\n"
         "attempt('truncate', lambda: os.truncate('/workspace/d/a', 0))\n"
         "print(json.dumps(found))")


def test_ordinary_work_is_not_in_the_way():
    """ABI 1 forbade renaming into another directory; from 2 on it must work."""
    found = inside(REACH)
    assert found["refer"] == found["truncate"] == "done"
    assert found["write"] != "done" and found["directory"] != "done"


@pytest.mark.parametrize("place", ["/", "/etc"])
def test_it_holds_alone(box, place):
    """With the read-only root taken away the rules hold; without them too the write succeeds."""
    code = (f"import errno\ntry: open('{place}/new-file', 'w'); print('done')\n"
            "except OSError as e: print(errno.errorcode[e.errno])")
    without = ["root_read_only", "apparmor"]
    assert box.python(code, without=without).text == "EACCES"
    assert box.python(code, without=[*without, "landlock"]).text == "done"
