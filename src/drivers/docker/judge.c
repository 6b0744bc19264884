/* An engine tells the version of the runc it came with, and of no other runtime: that one is judged
 * (BK-02), the others are what the engine's owner has registered. */
#include "drivers/docker/docker.h"

#include "base/own.h"
#include "drivers/floor.h"
#include "wire/docker.h"

#include <stdio.h>
#include <string.h>

static bool is_runc(const char *runtime)
{
    return strcmp(runtime, "runc") == 0 || strncmp(runtime, "io.containerd.runc.", 19) == 0 ||
           strcmp(runtime, "io.containerd.runtime.v1.linux") == 0;
}

/* Debian builds runc with its package's version in the place of the commit. */
static bool is_package(const char *version, const char *commit)
{
    size_t n = strlen(version);

    return n > 0 && strncmp(version, commit, n) == 0 && commit[n] == '-';
}

static int judge_runc(struct docker *d, const char *version, const char *commit,
                      struct coto_err *err)
{
    char lacks[COTO_FLOOR_LACKS];
    bool is_debian = is_package(version, commit);
    const char *known = is_debian ? commit : version[0] ? version : "unknown";
    const char *judged = is_debian ? "Debian package of the engine" : "the engine's word";

    coto_floor_lacks("runc", known, is_debian, lacks);
    if (lacks[0] && !coto_floor_is_named(&d->plan->allow_runtime, "runc", known))
        return coto_floor_refuse("runc", known, judged, lacks, err);
    snprintf(d->version, sizeof d->version, " %.60s%s%.100s", known,
             lacks[0] ? "; without the fix of " : "", lacks);
    return 0;
}

int docker_judge(struct docker *d, struct coto_err *err)
{
    coto_auto_buf out = {0};
    struct coto_frame frame;

    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_WHICH, 0);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_RUNTIMES,
                        d->plan->runtime ? d->plan->runtime : "");
    coto_frame_end(&out, at);
    docker_send(d, &out); /* if it is gone, it has said why */
    if (docker_receive(d, &frame, err))
        return -1;
    coto_auto_free char *name = coto_field_text(&frame, (enum coto_tag)COTO_DOCKER_RUNTIMES);
    coto_auto_free char *version = coto_field_text(&frame, (enum coto_tag)COTO_DOCKER_VERSION);
    coto_auto_free char *commit = coto_field_text(&frame, (enum coto_tag)COTO_DOCKER_COMMIT);
    if ((int)frame.type != COTO_DOCKER_THAT || !name || !version || !commit)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0,
                            "docker: unexpected answer from coto-docker");
    return is_runc(name) ? judge_runc(d, version, commit, err) : 0;
}
