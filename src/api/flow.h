/* Bytes between a client and a worker while the job runs: a bounded queue with the loop at
 * one end and the worker at the other.
 *
 * Out: the worker says what the reply will be (api_flow_begin) and sends; it waits when the
 * client is slow. Behind a live flow something runs that must not wait for long: when the
 * client has taken nothing for some seconds, or the time for waiting is over, nobody waits any
 * more, and once 1 MiB is queued the client is dropped. In: the loop takes the body as it comes
 * and stops reading from the client while the worker is slow.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct api_job;

/* 0, or -1: no memory. */
int api_flow_new(struct api_job *job, bool live);
void api_flow_free(struct api_job *job);
/* Loop: the client is gone, nobody has to wait. */
void api_flow_gone(struct api_job *job);
/* Loop: the job is to end; a live flow still tells how. */
void api_flow_cancel(struct api_job *job);

/* ---- out ---- */

/* Worker: the reply begins; type must be a literal, length -1 when it is not known. */
void api_flow_begin(struct api_job *job, const char *type, int64_t length);
/* Worker: from this time on (monotonic) it does not wait. */
void api_flow_wait_until(struct api_job *job, int64_t until_us);
/* Worker: 0, or -1: nobody wants it. */
int api_flow_send(struct api_job *job, const void *data, size_t len);
/* Worker: waits until the loop has taken everything. */
void api_flow_wait(struct api_job *job);
/* Loop: whether a reply was begun; sends what is left of it. */
bool api_flow_is_begun(struct api_job *job);

/* ---- in ---- */

/* Loop: the body is wanted. */
void api_flow_receive(struct api_job *job, uint64_t max);
/* Worker: 1 with the next bytes in *to (emptied first), 0 at the end, -1: the client is gone. */
int api_flow_take(struct api_job *job, struct coto_buf *to);
