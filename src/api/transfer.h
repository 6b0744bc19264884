/* What the transfers of files share. coto-init does what is done, inside (core/workfiles.h);
 * bytes pass piece by piece (flow.h), never as a whole. A transfer has the sandbox to itself, as
 * an execution has. */
#pragma once

#include "api/api.h"
#include "core/workfiles.h"

#define API_TRANSFER_FILES 10000 /* of an archive, or artifacts */

/* Takes ?path=, and has `run` called on a worker with a flow. */
void api_transfer_begin(struct api_call *call, bool needs_path,
                        void (*run)(struct api_job *job, int channel_fd));
/* The path as coto-init takes it: relative to the workspace, where it has a handle. */
const char *api_transfer_path(const struct api_job *job);
struct coto_workfiles api_transfer_open(struct api_job *job, int channel_fd);
void api_transfer_close(struct api_job *job, struct coto_workfiles *files);
