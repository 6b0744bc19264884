/* A coto-init that was taken over: it says what nobody asked for, or more than was asked for. Each
 * is an error of that execution, and nothing is called that the sandbox's driver does not have. */
#include "base/units.h"
#include "core/session.h"
#include "core/workfiles.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"

#define PROC 1

/* As the launcher's sandboxes: no inspect. */
static int no_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    (void)sandbox;
    *ret_usage = (struct coto_usage)COTO_USAGE_NONE;
    return 0;
}

static void no_kill(struct coto_sandbox *sandbox)
{
    (void)sandbox;
}

static const struct coto_driver driver = {.name = "none", .usage = no_usage, .kill = no_kill};

/* Somebody who says that, and listens until nobody is there. */
static pid_t speak(const struct coto_buf *words, int *ret_fd)
{
    int sv[2];

    assert_false(words->failed);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char drop[4096];
        signal(SIGPIPE, SIG_IGN);
        close(sv[0]);
        coto_fd_write_all(sv[1], words->data, words->len);
        while (read(sv[1], drop, sizeof drop) > 0)
            ;
        _exit(0);
    }
    assert_true(pid > 0);
    close(sv[1]);
    coto_fd_set_nonblock(sv[0], 1);
    *ret_fd = sv[0];
    return pid;
}

static void add_empty(struct coto_buf *out, enum coto_frame_type type, unsigned proc)
{
    coto_frame_end(out, coto_frame_begin(out, type, proc));
}

static void add_file(struct coto_buf *out, unsigned number, size_t bytes)
{
    char name[32];
    char data[256] = {0};
    size_t at = coto_frame_begin(out, COTO_FRAME_FILE, 0);

    snprintf(name, sizeof name, "file-%u", number);
    coto_frame_add_text(out, COTO_TAG_PATH, name);
    coto_frame_end(out, at);
    for (size_t n; bytes > 0; bytes -= n) {
        n = bytes < sizeof data ? bytes : sizeof data;
        at = coto_frame_begin(out, COTO_FRAME_FILE_DATA, 0);
        coto_frame_add(out, COTO_TAG_DATA, data, n);
        coto_frame_end(out, at);
    }
    add_empty(out, COTO_FRAME_FILE_END, 0);
}

/* ---- an execution ---- */

static int64_t most_output = COTO_UNIT_NONE;

static int execute(const struct coto_buf *words, struct coto_result *ret_result, struct coto_err *err)
{
    char *argv[] = {"true", NULL};
    const struct coto_plan plan = {.stages = {{.name = "run", .argv = {.items = argv, .count = 1}}},
                                   .stage_count = 1,
                                   .workdir = "/w",
                                   .timeout_ms = 60000,
                                   .cpu_time_ms = COTO_UNIT_NONE,
                                   .fsize_bytes = COTO_UNIT_NONE,
                                   .output_bytes = most_output,
                                   .output_kill = true,
                                   .nofile = 64,
                                   .disk_bytes = 1000,
                                   .want_artifacts = true,
                                   .rootfs = {.fd = -1}};
    const struct coto_io io = {
        .in_fd = -1, .out_fd = -1, .err_fd = -1, .artifacts_fd = -1, .cancel_fd = -1};
    struct coto_sandbox sandbox = {.driver = &driver,
                                   .parked_fd = -1,
                                   .alive_fd = -1,
                                   .stdio_fd = {-1, -1, -1},
                                   .work_dir = "/w"};
    struct coto_run_in in = {.sandbox = &sandbox, .first_proc = PROC, .keep = true};
    pid_t pid = speak(words, &sandbox.stream_fd);
    int failed = coto_core_run_in(&in, &plan, &io, ret_result, err);

    close(sandbox.stream_fd);
    waitpid(pid, NULL, 0);
    return failed;
}

static void refused(struct coto_buf *words)
{
    struct coto_result result;
    struct coto_err err = {0};

    assert_int_equal(execute(words, &result, &err), -1);
    assert_non_null(strstr(err.text, "not asked for"));
    coto_buf_fini(words);
}

static void add_exit(struct coto_buf *out)
{
    add_empty(out, COTO_FRAME_STARTED, PROC);
    add_empty(out, COTO_FRAME_EXIT, PROC);
}

static void what_was_asked_for_is_taken(void **state)
{
    coto_auto_buf words = {0};
    struct coto_result result;
    struct coto_err err = {0};

    (void)state;
    add_exit(&words);
    add_file(&words, 1, 600);
    add_file(&words, 2, 400);
    add_file(&words, 3, 0);
    add_empty(&words, COTO_FRAME_COLLECTED, 0);
    assert_int_equal(execute(&words, &result, &err), 0);
    assert_int_equal(result.artifact_count, 3);
    assert_int_equal(result.artifacts[0].bytes, 600);
    coto_result_fini(&result);
}

static void ready_comes_once(void **state)
{
    struct coto_buf words = {0};

    (void)state;
    add_empty(&words, COTO_FRAME_STARTED, PROC);
    size_t at = coto_frame_begin(&words, COTO_FRAME_READY, 0);
    coto_frame_add_num(&words, COTO_TAG_VERSION, COTO_WIRE_VERSION);
    coto_frame_end(&words, at);
    refused(&words);
}

static void files_come_when_they_are_collected(void **state)
{
    struct coto_buf words = {0};

    (void)state;
    add_empty(&words, COTO_FRAME_STARTED, PROC);
    add_file(&words, 1, 1);
    refused(&words);
}

static void no_more_bytes_than_there_can_be(void **state)
{
    struct coto_buf words = {0};

    (void)state;
    add_exit(&words);
    add_file(&words, 1, 5000);
    refused(&words);
}

static void no_more_files_than_are_wanted(void **state)
{
    struct coto_buf words = {0};

    (void)state;
    add_exit(&words);
    for (unsigned i = 0; i < 10010; i++)
        add_file(&words, i, 0);
    refused(&words);
}

/* It had ended before it heard that everybody is to be killed: whom it has kept dies after it. */
static void nothing_is_kept_of_who_was_to_be_killed(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        coto_auto_buf words = {0};
        struct coto_result result;
        struct coto_err err = {0};
        add_empty(&words, COTO_FRAME_STARTED, PROC);
        size_t at = coto_frame_begin(&words, COTO_FRAME_OUT, PROC);
        coto_frame_add(&words, COTO_TAG_DATA, "12345678", 8);
        coto_frame_end(&words, at);
        at = coto_frame_begin(&words, COTO_FRAME_EXIT, PROC);
        coto_frame_add_num(&words, COTO_TAG_CONTEXT, 3);
        coto_frame_end(&words, at);
        add_empty(&words, COTO_FRAME_COLLECTED, 0);
        most_output = over ? 7 : 8;
        assert_int_equal(execute(&words, &result, &err), 0);
        most_output = COTO_UNIT_NONE;
        assert_int_equal(result.facts.cause, over ? COTO_END_OUTPUT : COTO_END_SELF);
        assert_int_equal(result.facts.state_kept, !over);
        assert_true(result.facts.state_found);
        coto_result_fini(&result);
    }
}

/* ---- files ---- */

static int count_names(void *arg, const char *name, mode_t mode, int64_t bytes)
{
    (void)name;
    (void)mode;
    (void)bytes;
    ++*(int *)arg;
    return 0;
}

static int get(unsigned names, size_t bytes, int *ret_count, struct coto_err *err)
{
    struct coto_buf words = {0};
    struct coto_sandbox sandbox = {.driver = &driver};
    struct coto_workfiles files = {.sandbox = &sandbox, .cancel_fd = -1};
    struct coto_workfiles_take take = {.begin = count_names, .arg = ret_count};

    *ret_count = 0;
    for (unsigned i = 0; i < names; i++)
        add_file(&words, i, i ? 0 : bytes);
    add_empty(&words, COTO_FRAME_COLLECTED, 0xffff);
    pid_t pid = speak(&words, &sandbox.stream_fd);
    int failed = coto_workfiles_get(&files, "x", 1000, 5, &take, err);
    assert_int_equal(files.lost, failed != 0);
    close(sandbox.stream_fd);
    waitpid(pid, NULL, 0);
    coto_workfiles_fini(&files);
    coto_buf_fini(&words);
    return failed;
}

static void names_and_bytes_of_files_are_bounded(void **state)
{
    struct coto_err err = {0};
    int count;

    (void)state;
    assert_int_equal(get(6, 1000, &count, &err), 0);
    assert_int_equal(count, 6);
    assert_int_equal(get(7, 0, &count, &err), -1);
    assert_int_equal(count, 6);
    assert_non_null(strstr(err.text, "more came"));
    assert_int_equal(get(1, 1001, &count, &err), -1);
    assert_non_null(strstr(err.text, "more came"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_asked_for_is_taken),
        cmocka_unit_test(ready_comes_once),
        cmocka_unit_test(files_come_when_they_are_collected),
        cmocka_unit_test(no_more_bytes_than_there_can_be),
        cmocka_unit_test(no_more_files_than_are_wanted),
        cmocka_unit_test(nothing_is_kept_of_who_was_to_be_killed),
        cmocka_unit_test(names_and_bytes_of_files_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
