"""TO-05: time on a clock and time on processors are two limits."""
from escape.harness import escaped

TITLE = "CPU limit and wall limit told apart"
TRIED = ("4 busy threads, then 4 busy processes, against --cpu-time; the same against --timeout; sleep "
         "against both")
WALLS = ["cpu_time", "timeout"]
CONTROL = "option"
THREADS = """
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void *spin(void *arg) { for (volatile long i = 0;; i++) ; return arg; }
int main(int argc, char **argv)
{
    pthread_t thread;
    if (argv[1][0] == 's') { sleep(60); return 0; }
    for (int i = 0; i < 3; i++)
        if (argv[1][0] == 't') pthread_create(&thread, NULL, spin, NULL); else if (fork() == 0) spin(NULL);
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - began.tv_sec) + (now.tv_nsec - began.tv_nsec) / 1e9 < atof(argv[2]));
    return 7;
}
"""
# how, --cpu-time, --timeout, the limit that must be named
ROWS = [("threads", "600ms", "30s", "cpu-time"), ("processes", "600ms", "30s", "cpu-time"),
        ("threads", "none", "400ms", "timeout"), ("threads", "30s", "400ms", "timeout"),
        ("sleep", "600ms", "500ms", "timeout")]


def attack(box):
    program, told = box.c(THREADS), []
    for how, cpu, wall, limit in ROWS:
        done = box.run([program, how, "60"], flags=["--cpu-time", cpu, "--timeout", wall])
        if how == "processes" and "cpu_time" in done.json["missing_walls"]:
            told.append("processes: not summed here, as the result says")
            continue
        if (done.verdict, done.status) != ("timeout", 124):
            escaped("CRASH", f"{how} {cpu} {wall}: {done}")
        assert done.json["limit"] == limit, (how, cpu, wall, done.json["limit"])
        told.append(f"{how} {done.json['limit']} after {done.json['duration_ms']:.0f} ms")
    return "; ".join(told)


def control(box):
    """With a larger limit the threads end by themselves."""
    done = box.run([box.c(THREADS), "threads", "0.5"], flags=["--cpu-time", "60s", "--timeout", "30s"])
    assert (done.verdict, done.code) == ("nonzero", 7), done
    return f"4 threads ran {done.json['duration_ms']:.0f} ms and ended with 7"
