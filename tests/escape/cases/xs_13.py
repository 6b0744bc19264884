"""XS-13: foresee what another sandbox draws at random, or find what it was born from.

`coto run` starts programs of its own, which are compared here. Python programs of the service are forks of a template: they
have its addresses, and nothing that is drawn at random or that another left: tests/api/test_template.py
(test_forks_differ_in_what_is_random, test_forks_differ_in_hashes_of_secrets, test_memory_holds_nothing_of_others, with controls), tests/api/test_node.py
(test_two_share_nothing).
"""
from escape.harness import escaped
from escape.lib_files import TRY

TITLE = "random state of a clone"
TRIED = ("urandom, getrandom, hash seed, random, uuid, stack, heap and library addresses, stack canary, "
         "boot-time files of five sandboxes compared")
WALLS = ["pid_namespace", "mount_namespace"]
STATE = TRY + """
import random, tempfile, uuid
maps = open("/proc/self/maps").read().splitlines()
def where(name): return next((line.split("-")[0] for line in maps if name in line), "")
auxv = open("/proc/self/auxv", "rb").read()
words = [int.from_bytes(auxv[i:i + 8], "little") for i in range(0, len(auxv), 8)]
at_random = ctypes.string_at(dict(zip(words[::2], words[1::2]))[25], 16).hex()
print(json.dumps({"urandom": os.urandom(16).hex(), "getrandom": os.getrandom(16).hex(), "hash": hash("coto"),
    "random": random.random(), "uuid": str(uuid.uuid4()), "tempfile": next(tempfile._get_candidate_names()),
    "AT_RANDOM": at_random, "stack": where("[stack]"), "heap": where("[heap]"), "libc": where("libc"),
    "file": open("/dev/urandom", "rb").read(16).hex()}))
"""
RUNS = 5


def alike(box, **more):
    """name -> how many different values in five runs."""
    rows = [box.run(STATE, **more) for _ in range(RUNS)]
    ids = {row.json["execution_id"] for row in rows}
    told = [row.told() for row in rows]
    return {"execution_id": len(ids), **{name: len({str(row[name]) for row in told}) for name in told[0]}}


def attack(box):
    found = alike(box)
    same = [name for name, count in found.items() if count < RUNS]
    if same:
        escaped("READ", f"the same in several sandboxes: {same}")
    return f"all {len(found)} different in {RUNS} runs"


def control(box):
    """With a fixed hash seed and without address randomisation the comparison sees it."""
    code = ("import ctypes, os, sys\nctypes.CDLL(None).personality(0x40000)\n"
            f"os.execv(sys.executable, [sys.executable, '-c', {STATE!r}])\n")
    rows = [box.inside(code, flags=["--env", "PYTHONHASHSEED=0"]) for _ in range(2)]
    same = [name for name in rows[0] if rows[0][name] == rows[1][name]]
    assert {"hash", "stack", "libc"} <= set(same), rows
    return f"seen when switched off: {', '.join(same)} alike"
