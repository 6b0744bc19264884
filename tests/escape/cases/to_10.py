"""TO-10: end in the very moment in which the limit ends it."""
import collections
import concurrent.futures
import json
import time

from cli.helpers import SLOW
from escape.harness import escaped, met

TITLE = "exit at the limit"
LEAST_MS = round(25 * SLOW)
TRIED = ("1000 runs as root (as many as 20 s allow), 120 elsewhere, four at a time, against a limit of 25 ms, which includes the start: "
         "each exits with 7 later than the last one that was in time, and sooner than the last that was not: by steps that become smaller with every turn")
WALLS = ["timeout"]
RUNS = {"root": 1000}
ELSEWHERE = 120
AT_ONCE, STEP_US, SECONDS = 4, 400, 20
ONE_WAY = 3  # as many runs in one direction, and the edge is elsewhere by now
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


class Edge:
    """Where the limit is met: half of it at first, and by what the last runs tell."""

    def __init__(self, limit):
        self.micro, self.step = 500 * limit, 1000 * limit // 8
        self.last, self.same = None, 0

    def move(self, verdict):
        self.same = self.same + 1 if verdict == self.last else 0
        if self.last not in (None, verdict):
            self.step = max(STEP_US, self.step // 2)
        elif self.same >= ONE_WAY:
            self.step *= 2
        self.last = verdict
        self.micro = max(0, self.micro + (self.step if verdict == "nonzero" else -self.step))


def ends(box, program, limit, runs):
    """How so many runs ended, each as near to the limit as the last ones tell."""
    seen, edge = [], Edge(limit)
    end = time.monotonic() + SECONDS
    while len(seen) < runs and (time.monotonic() < end or len(seen) < ELSEWHERE // AT_ONCE):
        done = box.run([program, str(edge.micro)], flags=["--timeout", f"{limit}ms"])
        outcome = (done.verdict, done.status, done.json["limit"])
        # One that ended by itself after the limit has a code, and a verdict all the same.
        too_early = done.verdict == "timeout" and done.json["duration_ms"] < limit
        if outcome not in (("nonzero", 7, None), ("timeout", 124, "timeout")) or too_early:
            escaped("CRASH", f"two verdicts in one: {json.dumps(done.json)[:300]}")
        seen.append(done.verdict)
        edge.move(done.verdict)
    return seen


def attack(box):
    program = box.c(EXIT)
    limit = limit_here(box, program)
    runs = ELSEWHERE if box.level else RUNS.get(box.situation, ELSEWHERE)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        rows = pool.map(lambda _: ends(box, program, limit, runs // AT_ONCE), range(AT_ONCE))
        seen = collections.Counter(verdict for row in rows for verdict in row)
    left = box.host.survivors()
    if left:
        escaped("ESCAPE", f"still running: {left}")
    met(len(seen) == 2 and min(seen.values()) >= 6, f"the edge: {seen}")
    return f"{sum(seen.values())} runs, one verdict each: {dict(seen)}"


def control(box):
    """Without the limit none is ended, wherever it would have been."""
    program = box.c(EXIT)
    seen = {box.run([program, str(micro)], flags=["--timeout", "25ms"], without=["timeout"]).verdict
            for micro in (20000, 28000, 40000)}
    assert seen == {"nonzero"}, seen
    return "all end with 7 before and after the limit"
