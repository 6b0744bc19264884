/* What was really up: the program's first process tells what the kernel told it
 * just before execve; this turns it into the walls of the result and refuses to
 * go on when a needed one is not there. */
#include "core/session.h"

#include "base/units.h"
#include "kernel/apparmor.h"
#include "base/weak.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(struct coto_session *s, enum coto_wall id, bool up, const char *mechanism,
                const char *value)
{
    struct coto_wall_state *wall = &s->sandbox->walls[id];

    wall->wanted = true;
    wall->up = up;
    snprintf(wall->mechanism, sizeof wall->mechanism, "%s%s", mechanism,
             mechanism[0] && s->sandbox->guest_kernel && id != COTO_WALL_TIMEOUT && id != COTO_WALL_OUTPUT
                 ? ", guest kernel"
                 : "");
    snprintf(wall->value, sizeof wall->value, "%s", value);
    if (!up && !wall->note[0])
        snprintf(wall->note, sizeof wall->note, "the kernel did not confirm it");
}

static void say_num(struct coto_session *s, enum coto_wall id, bool up, const char *mechanism,
                    uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, value);
    say(s, id, up, mechanism, text);
}

static bool wanted(const struct coto_session *s, enum coto_wall id)
{
    return s->plan->want >> id & 1;
}

static void privilege(struct coto_session *s, const struct coto_frame *f)
{
    uint64_t all = coto_field_num(f, COTO_TAG_R_CAP_EFF) | coto_field_num(f, COTO_TAG_R_CAP_PRM) |
                   coto_field_num(f, COTO_TAG_R_CAP_INH) | coto_field_num(f, COTO_TAG_R_CAP_BND) |
                   coto_field_num(f, COTO_TAG_R_CAP_AMB);
    char text[32];

    snprintf(text, sizeof text, "0x%" PRIx64, all);
    say(s, COTO_WALL_CAPS, (all & ~s->plan->caps) == 0, "all five sets", text);
    say(s, COTO_WALL_NNP, coto_field_num(f, COTO_TAG_R_NNP) == 1, "prctl", "1");
    say(s, COTO_WALL_SECCOMP, coto_field_num(f, COTO_TAG_R_SECCOMP) == 2, "filter",
        s->result->filter_hash);
    uint64_t abi = coto_field_num(f, COTO_TAG_R_LANDLOCK);
    snprintf(text, sizeof text, "ABI %" PRIu64, abi);
    say(s, COTO_WALL_LANDLOCK, abi > 0, abi ? "ruleset" : "", abi ? text : "");
    say(s, COTO_WALL_ROOT_RO, coto_field_num(f, COTO_TAG_R_ROOT_RO) == 1, "read-only mount", "/");
    say(s, COTO_WALL_FDS, coto_field_num(f, COTO_TAG_R_FDS) == 1, "close_range", "0, 1, 2");
}

static void apparmor(struct coto_session *s, const struct coto_frame *f)
{
    char *label = coto_field_text(f, COTO_TAG_R_APPARMOR);
    int why = (int)coto_field_num(f, COTO_TAG_R_APPARMOR_ERRNO);
    struct coto_wall_state *wall = &s->sandbox->walls[COTO_WALL_APPARMOR];
    bool up = label && coto_apparmor_is_enforced(label);

    if (!up)
        snprintf(wall->note, sizeof wall->note, "profile '%s' %s", s->plan->apparmor,
                 coto_apparmor_why(why));
    say(s, COTO_WALL_APPARMOR, up, label ? "profile" : "", label ? label : "");
    free(label);
}

static void limits(struct coto_session *s, const struct coto_frame *f)
{
    const struct coto_plan *plan = s->plan;
    uint64_t v;

    if (wanted(s, COTO_WALL_NOFILE)) {
        v = coto_field_num(f, COTO_TAG_R_NOFILE);
        say_num(s, COTO_WALL_NOFILE, v && v <= (uint64_t)plan->nofile, "rlimit nofile", v);
    }
    if (wanted(s, COTO_WALL_FSIZE)) {
        v = coto_field_num(f, COTO_TAG_R_FSIZE);
        say_num(s, COTO_WALL_FSIZE, v <= (uint64_t)plan->fsize_bytes, "rlimit fsize", v);
    }
    if (wanted(s, COTO_WALL_DISK)) {
        /* tmpfs counts in pages: the kernel rounds up to the next one. */
        v = coto_field_num(f, COTO_TAG_R_DISK_BYTES);
        say_num(s, COTO_WALL_DISK, v && v < (uint64_t)plan->disk_bytes + 4096, "tmpfs size", v);
    }
    if (wanted(s, COTO_WALL_INODES)) {
        v = coto_field_num(f, COTO_TAG_R_DISK_INODES);
        say_num(s, COTO_WALL_INODES, v && v <= (uint64_t)plan->inodes, "tmpfs nr_inodes", v);
    }
    if (s->sandbox->rlimit_nproc > 0) {
        v = coto_field_num(f, COTO_TAG_R_NPROC);
        say_num(s, COTO_WALL_PIDS, v && v <= (uint64_t)s->sandbox->rlimit_nproc,
                "rlimit nproc, own user namespace", v - 1);
    }
}

int coto_walls_from_started(struct coto_session *s, const struct coto_frame *frame)
{
    if (s->sandbox->apply_seccomp) {
        privilege(s, frame);
        if (wanted(s, COTO_WALL_APPARMOR) && !s->sandbox->labelled)
            apparmor(s, frame);
        limits(s, frame);
    }
    for (int i = 0; i < COTO_WALL_COUNT && !coto_weakened(); i++) {
        const struct coto_wall_state *wall = &s->sandbox->walls[i];
        if (!(s->plan->need >> i & 1) || wall->up)
            continue;
        coto_err_set(&s->err, COTO_ERR_WALL, 0, "wall '%s' is not up: %s", coto_walls[i].name,
                     wall->note[0] ? wall->note : "this level does not have it");
        coto_err_remedy(&s->err, "see `coto doctor`; or name it in --allow-missing");
        return coto_session_fail(s, &s->err);
    }
    return 0;
}

/* Limits this process itself enforces, on its own clock. */
void coto_walls_of_supervisor(struct coto_session *s)
{
    char text[32];

    if (wanted(s, COTO_WALL_TIMEOUT)) {
        snprintf(text, sizeof text, "%" PRId64 "ms", s->plan->timeout_ms);
        say(s, COTO_WALL_TIMEOUT, true, "supervisor, monotonic clock", text);
    }
    if (wanted(s, COTO_WALL_OUTPUT)) {
        snprintf(text, sizeof text, "%" PRId64, s->plan->output_bytes);
        say(s, COTO_WALL_OUTPUT, true, "supervisor", text);
    }
}
