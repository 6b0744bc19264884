/* What the tests of the plan share: a directory and a policy for each test.
 * Included by one program each, after cmocka.h. */
#pragma once

#include "base/fd.h"
#include "policy/plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* A directory and a policy for each test. Values are put into the policy
 * directly: the plan must not rely on somebody else having checked them. */
struct room {
    char path[64];
    struct coto_policy policy;
    struct coto_plan plan;
    struct coto_err err;
};

static int enter(void **state)
{
    struct room *room = calloc(1, sizeof *room);

    snprintf(room->path, sizeof room->path, "/tmp/coto-test-plan-XXXXXX");
    if (!mkdtemp(room->path))
        return -1;
    room->plan.rootfs.fd = -1;
    *state = room;
    return coto_policy_init(&room->policy, &room->err);
}

static int leave(void **state)
{
    struct room *room = *state;
    int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failed = coto_path_remove_tree(tmp, room->path + strlen("/tmp/"));

    close(tmp);
    coto_plan_fini(&room->plan);
    coto_plan_fini(&room->plan);
    coto_policy_fini(&room->policy);
    free(room);
    return failed;
}

__attribute__((unused)) static void set_str(struct room *room, enum coto_opt opt, const char *text)
{
    free(room->policy.v[opt].str);
    room->policy.v[opt].str = strdup(text);
}

static void add_item(struct room *room, enum coto_opt opt, const char *fmt, ...)
{
    char item[8192];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(item, sizeof item, fmt, ap);
    va_end(ap);
    coto_strv_add(&room->policy.v[opt].list, item);
}

__attribute__((unused)) static const char *put(struct room *room, const char *name, const char *data, size_t len)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", room->path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(coto_fd_write_all(fd, data, len), 0);
    close(fd);
    return path;
}

__attribute__((unused)) static const char *in_room(struct room *room, const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", room->path, name);
    return path;
}

static const char *const true_argv[] = {"/bin/true", NULL};
static const struct coto_source_code run_true = {.argv = true_argv, .is_command = true};

static int make(struct room *room, const struct coto_source_code *code)
{
    coto_plan_fini(&room->plan);
    memset(&room->err, 0, sizeof room->err);
    return coto_plan_make(&room->policy, code, &room->plan, &room->err);
}

static void assert_made(struct room *room, const struct coto_source_code *code)
{
    if (make(room, code))
        fail_msg("%s (%s)", room->err.text, room->err.remedy);
}

/* Refused with this kind, this text, and a remedy. */
static void assert_refused(struct room *room, const struct coto_source_code *code, int kind,
                           const char *text)
{
    assert_int_equal(make(room, code), -1);
    if (!strstr(room->err.text, text))
        fail_msg("'%s' does not hold '%s'", room->err.text, text);
    assert_int_equal(room->err.kind, kind);
    assert_true(room->err.remedy[0] != '\0');
    assert_int_equal(room->plan.stage_count, 0);
}

__attribute__((unused)) static const char *env_of(const struct coto_plan *plan, const char *key)
{
    const char *found = NULL;

    for (size_t i = 0; i < plan->env.count; i++) {
        if (!coto_str_has_prefix(plan->env.items[i], key) ||
            plan->env.items[i][strlen(key)] != '=')
            continue;
        assert_null(found); /* no key twice */
        found = plan->env.items[i] + strlen(key) + 1;
    }
    return found;
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter, leave)
