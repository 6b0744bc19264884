/* Whether anybody in a sandbox has ever had a socket.
 *
 * A filter of its own beside the allow-list, which it can only make stricter: calls that make a
 * socket wait until whoever holds the listener has taken note and lets them go on. That holds
 * for all descendants, and when the listener is closed such calls fail. So as long as nobody
 * has taken note, no socket was made, whatever the program did. */
#pragma once

#include <stdint.h>
#include <sys/syscall.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

#define COTO_SOCKWATCH_CALLS SYS_socket, SYS_socketpair, SYS_io_uring_setup

/* Restricts the calling thread (which has no_new_privs); the listener, or -1 with errno. */
int coto_sockwatch_install(void);
/* Takes one call that waits; 0, or -1 when there is none any more. It goes on with _allow. */
int coto_sockwatch_take(int listener, uint64_t *ret_id);
int coto_sockwatch_allow(int listener, uint64_t id);
