"""The product knows nothing of the weak build: walls cannot be left out of it."""
import json
import subprocess

import pytest

from cli.helpers import BIN, coto, ok, run
from .harness import WEAK

NAME = b"COTO_TEST_WITHOUT"
EVERY = ("seccomp,landlock,capabilities,no_new_privs,uid,pid_namespace,net_namespace,ipc_namespace,"
         "uts_namespace,cgroup_namespace,mount_namespace,root_read_only,proc_masks,proc_private,rlimits,"
         "fds,env,dumpable,cgroup,timeout,output_limit,signals,kill_all,session")
LOOK = """
import json, os
status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
print(json.dumps([status['Seccomp'], status['NoNewPrivs'], int(status['CapBnd'], 16), os.getppid(),
                  os.path.exists('/root'), 'COTO_TEST_WITHOUT' in os.environ, os.getsid(0) == os.getpid()]))
"""


@pytest.mark.parametrize("program", ["coto", "coto-init"])
def test_the_hook_is_not_in_the_product(program):
    assert NAME not in (BIN / program).read_bytes()
    assert NAME in (WEAK / program).read_bytes(), "the look itself finds nothing"


def test_the_product_ignores_the_variable():
    seen = json.loads(ok(run("--lang", "python", "-c", LOOK, env={"COTO_TEST_WITHOUT": EVERY})))
    assert seen == ["2", "1", 0, 1, False, False, True]


def test_the_weak_build_says_what_it_is():
    told = subprocess.run([WEAK / "coto", "version"], capture_output=True, timeout=20).stdout
    assert b"not for use" in told and b"not for use" not in ok(coto("version"))

