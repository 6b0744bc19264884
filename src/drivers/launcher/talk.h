/* The talk between the service's front, which reads the network and has no privilege, and
 * its launcher, which makes sandboxes and reads no network.
 *
 * One message is one packet of a SOCK_SEQPACKET socket: one frame (wire/frame.h), and
 * descriptors where its row says so. Every request on a channel is answered there, in
 * order, by the frame its row names or by ERROR; a worker of the front has a channel of its
 * own. A plan travels as numbers and names, never as paths of the host, and the
 * launcher checks it again: what it does not know or what is beyond the operator's ceiling
 * is refused.
 */
#pragma once

#include "base/err.h"
#include "drivers/driver.h"
#include "policy/plan.h"
#include "wire/frame.h"

#include <stddef.h>

#define COTO_LAUNCH_MAX (64u * 1024)

/* ---- packets ---- */

/* Sends one frame with at most one descriptor (-1: none). 0 or -1 with errno. */
int coto_launch_send(int fd, const struct coto_buf *frame, int attach_fd);
/* Receives one frame into buf (emptied first); *ret_frame borrows from it. *ret_fd is the
 * attached descriptor or -1. 1: a frame; 0: the other end is gone; -1: errno says why. */
int coto_launch_receive(int fd, struct coto_buf *buf, struct coto_frame *ret_frame, int *ret_fd);
/* The same without waiting (EAGAIN), for who must not depend on what the other end does. */
int coto_launch_send_now(int fd, const struct coto_buf *frame, int attach_fd);
int coto_launch_receive_now(int fd, struct coto_buf *buf, struct coto_frame *ret_frame, int *ret_fd);

/* ---- plans: what a sandbox is made of, not what runs in it ---- */

/* Refuses a plan that cannot travel (host paths). */
int coto_launch_add_plan(struct coto_buf *out, const struct coto_plan *plan, struct coto_err *err);
/* Levels that a launcher makes sandboxes of. */
bool coto_launch_is_known(int isolation);
/* Fills *ret_plan, which the caller releases with coto_plan_fini. */
int coto_launch_take_plan(const struct coto_frame *frame, struct coto_plan *ret_plan,
                          struct coto_err *err);

/* ---- what comes back ---- */

void coto_launch_add_sandbox(struct coto_buf *out, const struct coto_sandbox *sandbox);
/* The name of a kernel of its own goes to ret_guest, which has to stay with the sandbox. */
int coto_launch_take_sandbox(const struct coto_frame *frame, struct coto_sandbox *sandbox,
                             char ret_guest[64]);
void coto_launch_add_usage(struct coto_buf *out, const struct coto_usage *usage);
void coto_launch_take_usage(const struct coto_frame *frame, struct coto_usage *ret_usage);
