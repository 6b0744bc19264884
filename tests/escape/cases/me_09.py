"""ME-09: have the kernel kill init, the supervisor or a neighbour instead of the program."""
import pathlib

from cli.helpers import WAITER
from escape.harness import escaped
from escape.lib_files import TRY
from escape.lib_hogs import LARGE, SMALL, hold, need_limit, spread

TITLE = "who dies when memory is out"
TRIED = ("oom scores lowered from inside; scores of all processes read on the host; hogs spread over "
         "sixty small children; a hog beside a neighbour")
WALLS = ["memory", "capabilities"]
LOWER = TRY + """
def lower(path, value):
    with open(path, "w") as file: file.write(value)
found = {path + " " + value: attempt(lower, "/proc/" + path, value)
         for path in ("self/oom_score_adj", "1/oom_score_adj", "self/oom_adj")
         for value in ("-1000", "0", "999", "-17")}
found["score"] = int(open("/proc/self/oom_score_adj").read())
print(json.dumps(found))
"""
SPREAD = spread(60, "b = bytearray(2 << 20)")


def scores(box):
    """name -> oom_score_adj, of coto and all it started."""
    with box.running(WAITER) as it:
        family = {it.process.pid: (0, "coto"), **it.family()}
        return {row[1]: int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid, row in family.items()}


def attack(box):
    found = box.inside(LOWER)
    score = found.pop("score")
    done = [name for name, word in found.items() if word == "done"]
    if done or score != 1000:
        escaped("ESCAPE", f"score {score}; lowered by {done}")
    seen = scores(box)
    own = int(pathlib.Path("/proc/self/oom_score_adj").read_text())
    if seen["coto"] != own or seen["sh"] != 1000:
        escaped("CRASH", f"{seen}")
    need_limit(box, "memory")
    with box.running(WAITER) as other:
        result = hold(box, SPREAD, SMALL)
        if result.verdict != "oom" or other.process.poll() is not None:
            escaped("CRASH", f"{result.verdict}, neighbour {other.process.poll()}")
        other.say("\n")
        assert other.end().status == 0
    return "program 1000, not to be lowered; coto as its caller; sixty children end as oom beside a living neighbour"


def control(box):
    # Raising one's score is everybody's right; here it only needs a /proc that can be written.
    found = box.inside(LOWER.replace('"-1000", "0", "999", "-17"', '"1000",'),
                       without=["proc_masks", "root_read_only", "landlock"])
    assert found["self/oom_score_adj 1000"] == "done", found
    need_limit(box, "memory")
    result = hold(box, SPREAD, LARGE)
    assert result.verdict == "ok" and b"held" in result.out, result
    return "a writable /proc takes a score; with 300 MiB nobody dies"
