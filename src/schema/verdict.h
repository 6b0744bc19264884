/* One word for how a program's run ended. One row each: id, word, meaning. */
#pragma once

#define COTO_VERDICTS(X)                                                                           \
    X(OK, "ok", "the program ended with status 0")                                                 \
    X(NONZERO, "nonzero", "the program ended by itself with another status")                       \
    X(SIGNAL, "signal", "the program died from a signal of its own making")                        \
    X(TIMEOUT, "timeout", "the wall-clock or CPU-time limit ended it")                             \
    X(OOM, "oom", "the memory limit ended it")                                                     \
    X(PIDS, "pids", "it failed after it had reached the process limit")                            \
    X(OUTPUT, "output", "the output limit ended it (on-output-limit: kill)")                       \
    X(DISK, "disk", "it failed with its workspace or /tmp full")                                   \
    X(DENIED, "denied", "it was killed for a forbidden system call")                               \
    X(KILLED, "killed", "the caller ended it (Ctrl-C, cancel)")                                    \
    X(LOST, "lost", "contact with the sandbox broke; what it did last is unknown")

enum coto_verdict {
#define X(id, word, doc) COTO_VERDICT_##id,
    COTO_VERDICTS(X)
#undef X
        COTO_VERDICT_COUNT
};

const char *coto_verdict_word(enum coto_verdict verdict);
const char *coto_verdict_doc(enum coto_verdict verdict);
