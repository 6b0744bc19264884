#include "init/spec.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void init_spec_fini(struct init_spec *spec)
{
    coto_strv_fini(&spec->argv);
    coto_strv_fini(&spec->env);
    coto_strv_fini(&spec->writable);
    coto_strv_fini(&spec->full_paths);
    free(spec->cwd);
    free(spec->apparmor);
    free(spec->filter);
}

static int add_text(struct coto_strv *list, const struct coto_field *field)
{
    if (memchr(field->data, 0, field->len))
        return -1;
    return coto_strv_addn(list, (const char *)field->data, field->len);
}

static uint64_t num_at(const unsigned char *p)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static int take_rlimit(struct init_spec *spec, const struct coto_field *field)
{
    if (field->len != 24 || spec->rlimit_count == INIT_RLIMITS || num_at(field->data) > 31)
        return -1;
    spec->rlimits[spec->rlimit_count].resource = (int)num_at(field->data);
    spec->rlimits[spec->rlimit_count].limit.rlim_cur = num_at(field->data + 8);
    spec->rlimits[spec->rlimit_count].limit.rlim_max = num_at(field->data + 16);
    spec->rlimit_count++;
    return 0;
}

static int take_filter(struct init_spec *spec, const struct coto_field *field)
{
    if (spec->filter || field->len == 0 || field->len % sizeof *spec->filter ||
        field->len / sizeof *spec->filter > 4096)
        return -1;
    spec->filter = malloc(field->len);
    if (!spec->filter)
        return -1;
    memcpy(spec->filter, field->data, field->len);
    spec->filter_len = (unsigned short)(field->len / sizeof *spec->filter);
    return 0;
}

static int take_field(struct init_spec *spec, const struct coto_field *field)
{
    /* An interpreter that waits does not get to see what is behind it (parked.c), so nobody else may. */
    if (spec->has_resident && field->tag != COTO_TAG_RESIDENT)
        return -1;
    uint64_t num = coto_field_value(field);

    switch (field->tag) {
    case COTO_TAG_ARGV:
        return add_text(&spec->argv, field);
    case COTO_TAG_ENV:
        return add_text(&spec->env, field);
    case COTO_TAG_RESIDENT: /* read once it is needed */
        spec->has_resident = true;
        return 0;
    case COTO_TAG_WRITABLE:
        return add_text(&spec->writable, field);
    case COTO_TAG_FULL_PATH:
        return add_text(&spec->full_paths, field);
    case COTO_TAG_RLIMIT:
        return take_rlimit(spec, field);
    case COTO_TAG_SECCOMP:
        return take_filter(spec, field);
    case COTO_TAG_UID:
        spec->has_uid = true;
        spec->uid = num;
        return 0;
    case COTO_TAG_GID:
        spec->gid = num;
        return 0;
    case COTO_TAG_CAPS:
        spec->caps = num;
        return 0;
    case COTO_TAG_LANDLOCK_ABI:
        spec->landlock_abi = num;
        return num > INT_MAX ? -1 : 0; /* it is applied as an int */
    case COTO_TAG_STDIO:
        spec->frames = num == 1;
        return 0;
    case COTO_TAG_TIMEOUT_MS:
        spec->timeout_ms = num;
        return 0;
    case COTO_TAG_UMASK:
        spec->umask_bits = num & 0777;
        return 0;
    case COTO_TAG_APPARMOR_MUST:
        spec->apparmor_must = num != 0;
        return 0;
    case COTO_TAG_NOEXEC:
        spec->noexec = num != 0;
        return 0;
    case COTO_TAG_CONTEXT:
        spec->context = num != 0;
        return 0;
    case COTO_TAG_PARKED:
        spec->parked = num != 0;
        return 0;
    case COTO_TAG_KILL_ON_EXIT:
        spec->kill_on_exit = num != 0;
        spec->spares = num == COTO_KILL_UNLESS_STATE;
        return 0;
    case COTO_TAG_BYE_ON_EXIT:
        spec->bye_on_exit = num != 0;
        return 0;
    default:
        return 0;
    }
}

int init_spec_resident(const struct coto_frame *frame, struct coto_strv *ret_argv)
{
    struct coto_field field = {0};

    while (coto_field_next(frame, &field) == 1)
        if (field.tag == COTO_TAG_RESIDENT && add_text(ret_argv, &field))
            return -1;
    return 0;
}

int init_spec_parse(const struct coto_frame *frame, struct init_spec *spec, struct coto_err *err)
{
    struct coto_field field = {0};
    int got;

    spec->umask_bits = 022;
    while ((got = coto_field_next(frame, &field)) == 1)
        if (take_field(spec, &field))
            return coto_err_set(err, COTO_ERR_INTERNAL, 0, "exec: bad field %u", field.tag);
    spec->cwd = coto_field_text(frame, COTO_TAG_CWD);
    spec->apparmor = coto_field_text(frame, COTO_TAG_APPARMOR);
    if (got < 0 || spec->argv.count == 0 || !spec->cwd)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "exec: incomplete frame");
    return 0;
}
