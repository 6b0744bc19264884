"""TO-10: end in the very moment in which the limit ends it."""
import json

from cli.helpers import SLOW
from escape.harness import escaped

TITLE = "exit at the limit"
LIMIT_MS = round(25 * SLOW)
TRIED = "120 runs that exit with 7 after 1 to 30 ms against a limit of 25 ms, which includes the start"
WALLS = ["timeout"]
RUNS = 120
EXIT = r"""
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    struct timespec nap = {0, atol(argv[1]) * 1000};
    nanosleep(&nap, 0);
    return 7;
}
"""


def attack(box):
    program, seen = box.c(EXIT), {}
    for n in range(RUNS):
        micro = round((1000 + 29000 * n // RUNS) * SLOW)
        done = box.run([program, str(micro)], flags=["--timeout", f"{LIMIT_MS}ms"])
        outcome = (done.verdict, done.status, done.json["limit"])
        # One that ended by itself after the limit has a code, and a verdict all the same.
        too_early = done.verdict == "timeout" and done.json["duration_ms"] < LIMIT_MS
        if outcome not in (("nonzero", 7, None), ("timeout", 124, "timeout")) or too_early:
            escaped("CRASH", f"two verdicts in one: {json.dumps(done.json)[:300]}")
        seen[done.verdict] = seen.get(done.verdict, 0) + 1
    left = box.host.survivors()
    if left:
        escaped("ESCAPE", f"still running: {left}")
    assert len(seen) == 2, f"the edge was not met: {seen}"
    return f"one verdict each: {seen}"


def control(box):
    """Without the limit none is ended, wherever it would have been."""
    program = box.c(EXIT)
    seen = {box.run([program, str(micro)], flags=["--timeout", "25ms"], without=["timeout"]).verdict
            for micro in (20000, 28000, 40000)}
    assert seen == {"nonzero"}, seen
    return "all end with 7 before and after the limit"
