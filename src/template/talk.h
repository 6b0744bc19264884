/* Messages around a template (an interpreter that is forked into sandboxes).
 *
 * Launcher and template, on a SOCK_SEQPACKET socket:
 *   template  'w'+names      before that: of modules that could not be imported
 *   template  'r'            ready: all libraries are imported
 *   launcher  struct coto_template_fork + fds
 *                            fork into a sandbox: pidfd of its init, the parked process's end of the
 *                            channel to that init, then what to join its cgroup by
 *   template  'k' or 'e'+errno
 *
 * Launcher and init, on the SOCK_SEQPACKET socket that the launcher then gives to the parked process:
 *   init      'w'            only where it was started with --late: now
 *
 * Parked process and init, on a SOCK_SEQPACKET socket:
 *   parked    struct coto_parked_hello
 *   init      an EXEC frame + stdin, stdout, stderr
 *   parked    its STARTED or ERROR frame, the first time with a channel of the sandbox's own in place of
 *             this one, where state is kept, and the listener of its watch over
 *             sockets (kernel/sockwatch.h); then it runs the code. It closes the channel first,
 *             unless the frame asks for a context: then it says struct coto_parked_done at
 *             the end, keeps its state, and takes the next EXEC frame
 *
 * Where the parked process has ended init starts another as a program like any other, behind its walls
 * (RESIDENT of the EXEC frame), with the channel as its stdin. It says no hello and no STARTED, which init
 * does; the rest is the same.
 */
#pragma once

#include <stdint.h>

enum {
    COTO_TEMPLATE_WITHOUT = 'w',
    COTO_TEMPLATE_READY = 'r',
    COTO_TEMPLATE_FORK = 'f',
    COTO_TEMPLATE_FORK_BORN = 'F', /* the descriptor after the second is a cgroup to be born in */
    COTO_TEMPLATE_OK = 'k',
    COTO_TEMPLATE_ERROR = 'e',
};

#define COTO_TEMPLATE_FDS 8

struct coto_template_fork {
    char what;
    uint32_t uid, gid; /* inside, of the parked process */
    uint64_t caps;     /* that it keeps there */
};

#define COTO_PARKED_WANTED 'w'
#define COTO_PARKED_MAGIC 0x636f746f

struct coto_parked_done {
    uint32_t magic;
    int32_t status; /* what it would have exited with */
};

struct coto_parked_hello {
    uint32_t magic;
    int32_t pid; /* in the sandbox's pid namespace */
};
