#include "base/fd.h"
#include "schema/languages.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static const struct coto_language *detect(const char *name, const char *head)
{
    int is_elf = -1;
    const struct coto_language *found = coto_language_detect(name, head, strlen(head), &is_elf);

    assert_int_equal(is_elf, 0);
    return found;
}

static void assert_lang(const struct coto_language *found, const char *name)
{
    if (!name) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_string_equal(found->name, name);
}

static void test_rows_are_whole(void **state)
{
    (void)state;
    assert_int_equal(coto_language_count, 13);
    for (size_t i = 0; i < coto_language_count; i++) {
        const struct coto_language *row = &coto_languages[i];
        assert_ptr_equal(coto_language_find(row->name), row);
        assert_non_null(row->tool);
        assert_non_null(row->package);
        assert_non_null(row->run[0]);
        assert_null(row->run[COTO_LANG_MAX_ARGS - 1]);
        assert_null(row->build[COTO_LANG_MAX_ARGS - 1]);
        assert_null(row->env[7]);
        assert_true(coto_language_has_extension(row, row->file));
        assert_int_equal(row->extensions[0], ' ');
        assert_int_equal(row->shebangs[0], ' ');
    }
}

static void test_find_by_alias(void **state)
{
    static const char *const pairs[][2] = {
        {"py", "python"}, {"python3", "python"}, {"js", "node"}, {"javascript", "node"},
        {"cpp", "c++"},   {"cxx", "c++"},        {"golang", "go"}, {"rs", "rust"},
        {"rb", "ruby"},   {"pl", "perl"},        {"c", "c"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_lang(coto_language_find(pairs[i][0]), pairs[i][1]);
    assert_null(coto_language_find("cobol"));
    assert_null(coto_language_find(""));
    assert_null(coto_language_find("Python"));
    assert_null(coto_language_find(NULL));
}

static void test_detect_by_extension(void **state)
{
    (void)state;
    assert_lang(detect("a.py", ""), "python");
    assert_lang(detect("/x.rb/a.js", ""), "node");
    assert_lang(detect("a.tar.go", ""), "go");
    assert_lang(detect("a.cc", ""), "c++");
    assert_lang(detect("a.C", ""), "c++");
    assert_lang(detect("a.c", ""), "c");
    assert_lang(detect("/x.py/a", ""), NULL);
    assert_lang(detect("py", ""), NULL);
    assert_lang(detect("a.", ""), NULL);
    assert_lang(detect("a.py .pyw", ""), "python");
    assert_lang(detect("a. .py ", ""), NULL);
    assert_lang(detect("a.txt", ""), NULL);
}

static void test_detect_by_first_line(void **state)
{
    (void)state;
    assert_lang(detect("a", "#!/usr/bin/python3\n"), "python");
    assert_lang(detect("a", "#! /usr/bin/python3 -u\nx"), "python");
    assert_lang(detect("a", "#!/usr/bin/env node\n"), "node");
    assert_lang(detect("a", "#!/usr/bin/env -S FOO=1 ruby -w\n"), "ruby");
    assert_lang(detect("a", "#!/bin/bash\r\n"), "bash");
    assert_lang(detect(NULL, "#!/bin/sh"), "sh");
    assert_lang(detect("a", "#!/usr/bin/env\n"), NULL);
    assert_lang(detect("a", "#!/usr/bin/env -S\n"), NULL);
    assert_lang(detect("a", "#!/usr/bin/awk -f\n"), NULL);
    assert_lang(detect("a", "#!"), NULL);
    assert_lang(detect("a", "#!\n/bin/sh"), NULL);
    assert_lang(detect("a", " #!/bin/sh\n"), NULL);
}

static void test_extension_goes_before_first_line(void **state)
{
    (void)state;
    assert_lang(detect("a.py", "#!/bin/sh\n"), "python");
    /* ".sh" is shared: here the first line decides. */
    assert_lang(detect("a.sh", "#!/bin/bash\n"), "bash");
    assert_lang(detect("a.sh", "#!/bin/sh\n"), "sh");
    assert_lang(detect("a.sh", "echo\n"), "sh");
    assert_lang(detect("a.txt", "#!/bin/sh\n"), "sh");
}

static void test_elf_is_reported(void **state)
{
    int is_elf = 0;

    (void)state;
    assert_null(coto_language_detect("a.py", "\177ELF\2\1", 6, &is_elf));
    assert_int_equal(is_elf, 1);
    assert_null(coto_language_detect("a", "\177EL", 3, &is_elf));
    assert_int_equal(is_elf, 0);
    assert_null(coto_language_detect(NULL, "", 0, &is_elf));
    assert_int_equal(is_elf, 0);
}

/* ---- every row's hello-world, run for real in a temporary directory ---- */

static void add_expanded(struct coto_buf *out, const char *item, const char *dir, const char *src)
{
    while (*item) {
        if (coto_str_has_prefix(item, "{src}")) {
            coto_buf_adds(out, src);
            item += 5;
        } else if (coto_str_has_prefix(item, "{out}")) {
            coto_buf_addf(out, "%s/program", dir);
            item += 5;
        } else if (coto_str_has_prefix(item, "{dir}")) {
            coto_buf_adds(out, dir);
            item += 5;
        } else if (coto_str_has_prefix(item, "{scratch}")) {
            coto_buf_adds(out, dir);
            item += 9;
        } else if (coto_str_has_prefix(item, "{memory}")) {
            coto_buf_adds(out, "536870912");
            item += 8;
        } else {
            coto_buf_addc(out, *item++);
        }
    }
}

/* Runs one list with only the row's environment; appends its stdout. */
static int run_list(const struct coto_language *row, const char *const *list, const char *dir,
                    struct coto_buf *out)
{
    coto_auto_strv argv = {0}, env = {0};
    coto_auto_buf src = {0};
    int pipes[2], status;

    coto_buf_addf(&src, "%s/%s", dir, row->file);
    coto_strv_add(&env, "PATH=/usr/bin:/bin");
    for (size_t i = 0; row->env[i]; i++) {
        coto_auto_buf item = {0};
        add_expanded(&item, row->env[i], dir, coto_buf_str(&src));
        coto_strv_add(&env, coto_buf_str(&item));
    }
    for (; *list; list++) {
        coto_auto_buf item = {0};
        add_expanded(&item, *list, dir, coto_buf_str(&src));
        coto_strv_add(&argv, coto_buf_str(&item));
    }
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 1);
        close(pipes[0]);
        close(pipes[1]);
        if (chdir(dir))
            _exit(126);
        execvpe(argv.items[0], argv.items, env.items);
        _exit(127);
    }
    close(pipes[1]);
    assert_int_equal(coto_fd_read_all(pipes[0], 65536, out), 0);
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void say_hello(const struct coto_language *row)
{
    char dir[] = "/tmp/coto-test-lang-XXXXXX";
    coto_auto_buf out = {0}, want = {0};

    assert_non_null(mkdtemp(dir));
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(dirfd, row->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(coto_fd_write_all(fd, row->hello, strlen(row->hello)), 0);
    close(fd);
    close(dirfd);
    if (row->build[0])
        assert_int_equal(run_list(row, row->build, dir, &out), 0);
    int status = run_list(row, row->run, dir, &out);
    int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(coto_path_remove_tree(tmp, dir + strlen("/tmp/")), 0);
    close(tmp);
    coto_buf_addf(&want, "hello from %s\n", row->name);
    assert_int_equal(status, 0);
    assert_string_equal(coto_buf_str(&out), coto_buf_str(&want));
}

static void test_hello_worlds(void **state)
{
    size_t ran = 0;

    (void)state;
    for (size_t i = 0; i < coto_language_count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/usr/bin/%s", coto_languages[i].tool);
        if (access(path, X_OK))
            continue; /* the tool is not part of this machine */
        say_hello(&coto_languages[i]);
        ran++;
    }
    assert_true(ran >= 2); /* sh and perl are on every Debian */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_find_by_alias),
        cmocka_unit_test(test_detect_by_extension),
        cmocka_unit_test(test_detect_by_first_line),
        cmocka_unit_test(test_extension_goes_before_first_line),
        cmocka_unit_test(test_elf_is_reported),
        cmocka_unit_test(test_hello_worlds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
