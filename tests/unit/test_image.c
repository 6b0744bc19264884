/* Names of images and of members, and what a listing tells. */
#include "image/image.h"

#include "base/tar.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static void test_refs(void **state)
{
    static const struct {
        const char *text, *name, *digest; /* name NULL: refused */
    } rows[] = {
        {"a", "a:latest", ""},
        {"a:1", "a:1", ""},
        {"ia-libre/sandbox", "ia-libre/sandbox:latest", ""},
        {"host:5000/a", "host:5000/a:latest", ""},
        {"host:5000/a:v1.2_3-4", "host:5000/a:v1.2_3-4", ""},
        {"a__b", "a__b:latest", ""},
        {"a@sha256:" HEX, "a:latest", HEX},
        {"a:1@sha256:" HEX, "a:1", HEX},
        {"sha256:" HEX, "", HEX},
        {"", NULL, NULL},
        {"@sha256:" HEX, NULL, NULL},
        {"a@sha256:" HEX "0", NULL, NULL},
        {"a@sha256:0", NULL, NULL},
        {"sha256:xyz", NULL, NULL},
        {"a@md5:" HEX, NULL, NULL},
        {"/a", NULL, NULL},
        {"a/", NULL, NULL},
        {"a//b", NULL, NULL},
        {"a/../b", NULL, NULL},
        {"..", NULL, NULL},
        {".a", NULL, NULL},
        {"a..b", NULL, NULL},
        {"a:b:c", NULL, NULL},
        {"a:b/c:d:e", NULL, NULL},
        {"a:", NULL, NULL},
        {"a+b", NULL, NULL},
        {"a b", NULL, NULL},
        {"a\n", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct coto_image_ref ref = {0};
        struct coto_err err = {0};
        int failed = coto_image_ref_parse(rows[i].text, &ref, &err);
        assert_int_equal(failed, rows[i].name ? 0 : -1);
        if (failed) {
            assert_true(err.remedy[0]);
            continue;
        }
        assert_string_equal(ref.name, rows[i].name);
        assert_string_equal(ref.digest, rows[i].digest);
    }
}

static void test_names_and_files(void **state)
{
    static const char *const names[] = {"a:latest", "host:5000/a/b:1", "x/y:z"};
    char file[COTO_IMAGE_NAME_MAX + 1], name[COTO_IMAGE_NAME_MAX + 1];

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        coto_image_name_file(names[i], file);
        assert_null(strchr(file, '/'));
        assert_true(coto_image_file_name(file, name));
        assert_string_equal(name, names[i]);
    }
    assert_false(coto_image_file_name(".new", name));
    assert_false(coto_image_file_name("a:latest.new~", name));
}

static void test_members(void **state)
{
    static const struct {
        const char *name, *clean; /* NULL: refused */
    } rows[] = {
        {"a", "a"},     {"a/b", "a/b"},     {"./a", "a"}, {"a//b", "a/b"}, {"a/./b", "a/b"},
        {"...", "..."}, {"a/..b", "a/..b"}, {"/a", NULL}, {"..", NULL},    {"a/..", NULL},
        {"../a", NULL}, {".", NULL},        {"", NULL},   {"./.", NULL},   {"//", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        coto_auto_buf clean = {0};
        struct coto_err err = {0};
        assert_int_equal(image_name_clean(rows[i].name, &clean, &err), rows[i].clean ? 0 : -1);
        if (rows[i].clean)
            assert_string_equal(coto_buf_str(&clean), rows[i].clean);
    }
}

static int scratch(char *path)
{
    strcpy(path, "/tmp/coto-test-image-XXXXXX");
    assert_non_null(mkdtemp(path));
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void drop(const char *path)
{
    coto_auto_fd tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(coto_path_remove_tree(tmp, path + strlen("/tmp/")), 0);
}

static void write_file(int dir, const char *name, const char *text)
{
    coto_auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_int_equal(coto_fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, 0644), 0);
}

static void test_listing(void **state)
{
    char path[64];
    coto_auto_fd root = scratch(path);
    coto_auto_buf one = {0};
    coto_auto_buf two = {0};
    coto_auto_buf what = {0};
    struct image_counts counts;
    struct coto_err err = {0};

    (void)state;
    assert_int_equal(mkdirat(root, "a", 0755), 0);
    assert_int_equal(fchmodat(root, "a", 0755, 0), 0);
    write_file(root, "a/f", "");
    write_file(root, "a-b", "x");
    assert_int_equal(symlinkat("a b\n", root, "l\\"), 0);
    assert_int_equal(image_tree_list(root, &one, &counts, &err), 0);
    assert_string_equal(
        coto_buf_str(&one),
        "coto image 1\n"
        "d 0755 a\n"
        "f 0644 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 a/f\n"
        "f 0644 1 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 a-b\n"
        "l l\\x5c -> a\\x20b\\x0a\n");
    assert_int_equal(counts.files, 2);
    assert_int_equal(counts.bytes, 1);
    write_file(root, "a-b", "y");
    assert_int_equal(image_tree_list(root, &two, NULL, &err), 0);
    image_tree_difference(&one, &two, &what);
    assert_string_equal(coto_buf_str(&what), "a-b");
    drop(path);
}

static void test_places(void **state)
{
    char path[64];
    coto_auto_fd root = scratch(path);
    struct image_place place;
    struct coto_err err = {0};
    const char *base;

    (void)state;
    assert_int_equal(symlinkat("/", root, "top"), 0);
    assert_int_equal(symlinkat("../../../../..", root, "up"), 0);
    assert_int_equal(symlinkat("/nowhere", root, "dangling"), 0);
    image_place_init(&place, root);
    /* "/" and any number of ".." are the tree's own root */
    for (int i = 0; i < 2; i++) {
        int fd = image_place_parent(&place, i ? "up/x/f" : "top/x/f", true, &base, &err);
        assert_true(fd >= 0);
        assert_string_equal(base, "f");
    }
    assert_int_equal(faccessat(root, "x", F_OK, 0), 0);
    assert_int_equal(image_place_parent(&place, "none/f", false, &base, &err), -1);
    assert_int_equal(err.kind, 0);
    assert_int_equal(image_place_parent(&place, "dangling/f", true, &base, &err), -1);
    assert_int_equal(err.kind, COTO_ERR_INPUT);
    image_place_fini(&place);
    drop(path);
}

/* The members of an image archive are kept by name; a hundred thousand of 60 KB are not. */
static void test_long_names_of_an_archive(void **state)
{
    char path[] = "/tmp/coto-test-XXXXXX";
    char name[1000];
    coto_auto_buf tar = {0};
    coto_auto_fd fd = mkstemp(path);
    struct image_blobs blobs = {0};
    struct coto_err err = {0};

    (void)state;
    unlink(path);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    coto_tar_add_file(&tar, name, 0644, 0);
    coto_tar_add_file(&tar, "manifest.json", 0644, 0);
    coto_tar_add_end(&tar);
    assert_int_equal(coto_fd_write_all(fd, tar.data, tar.len), 0);
    assert_int_equal(image_blobs_scan(fd, &blobs, &err), 0);
    assert_int_equal(blobs.count, 1);
    assert_true(image_blobs_has(&blobs, "manifest.json"));
    image_blobs_fini(&blobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refs),    cmocka_unit_test(test_names_and_files),
        cmocka_unit_test(test_members), cmocka_unit_test(test_listing),
        cmocka_unit_test(test_places),  cmocka_unit_test(test_long_names_of_an_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
