"""TO-10: end in the very moment in which the limit ends it."""
import json

from cli.helpers import SLOW
from escape.harness import escaped

TITLE = "exit at the limit"
LEAST_MS = round(25 * SLOW)
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


def limit_here(box, program):
    """25 ms, or more where most starts take longer, here and now."""
    took = sorted(box.run([program, "0"]).json["duration_ms"] for _ in range(5))
    return max(LEAST_MS, round(took[3] + LEAST_MS / 2))


def attack(box):
    program, seen = box.c(EXIT), {}
    limit = limit_here(box, program)
    for n in range(RUNS):
        micro = round(1000 + (limit + 4) * 1000 * n // RUNS)
        done = box.run([program, str(micro)], flags=["--timeout", f"{limit}ms"])
        outcome = (done.verdict, done.status, done.json["limit"])
        # One that ended by itself after the limit has a code, and a verdict all the same.
        too_early = done.verdict == "timeout" and done.json["duration_ms"] < limit
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
