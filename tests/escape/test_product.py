"""The product knows nothing of the weak build: walls cannot be left out of it. And the page of evidence is of
these very cases."""
import json
import re
import subprocess

import pytest

from cli.helpers import BIN, SOURCE, coto, ok, run
from . import table
from .catalogue import IDS
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


# ---- docs/EVIDENCE.md, which `make escape` writes ----

PAGE = (SOURCE / "docs/EVIDENCE.md").read_text()


def test_the_evidence_is_of_these_cases():
    told = re.findall(r"Cases: SHA-256 `(\w+)`", PAGE)
    assert told == [table.cases_hash()], "the cases have changed since the page was written: make escape"


def test_the_evidence_tells_what_every_case_tries():
    wrong = [name for name in IDS if table.path_of(name).exists()
             and not re.search(rf"^\| {re.escape(table.link_to(name))}[^|]*"
                               rf"\| {re.escape(table.cell(table.case_of(name).TRIED))} \| ", PAGE, re.M)]
    assert not wrong, f"the page tells something else about {wrong}: make escape"
