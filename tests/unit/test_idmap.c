/* Which ids a sandbox gets, for callers this host does not have: with a subordinate range
 * (newuidmap really writes the map), without one, and inside a user namespace. */
#include "kernel/idmap.h"
#include "schema/options.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "in_child.h"
#include "own_mounts.h"

#define USER 65533

/* Becomes a user of that name with these subordinate ranges. */
static int become(const char *ranges)
{
    CHECK(own_mounts() == 0);
    CHECK(cover_file("/etc/passwd", "root:x:0:0::/:\ntester:x:65533:65533::/:\n") == 0);
    CHECK(cover_file("/etc/subuid", ranges) == 0 && cover_file("/etc/subgid", ranges) == 0);
    CHECK(setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
    prctl(PR_SET_DUMPABLE, 1); /* else what we fork has /proc files of root */
    return 0;
}

/* A child in a new user namespace that waits to be killed. */
static pid_t start_in_namespace(void)
{
    int ready[2];
    char byte;

    if (pipe(ready))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWUSER) || write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    bool ok = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    return ok ? child : -1;
}

static int read_map(pid_t pid, const char *file, unsigned ret_map[3])
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    FILE *map = fopen(path, "re");
    int found = map ? fscanf(map, "%u %u %u", &ret_map[0], &ret_map[1], &ret_map[2]) : 0;
    if (map)
        fclose(map);
    return found == 3 ? 0 : -1;
}

static int map_is_written(const struct coto_idmap *map)
{
    struct coto_err err = {0};
    unsigned uids[3];
    unsigned gids[3];
    pid_t child = start_in_namespace();

    CHECK(child > 0);
    int failed = coto_idmap_write(map, child, 10000, 10001, &err) ||
                 read_map(child, "uid_map", uids) || read_map(child, "gid_map", gids);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (failed)
        fprintf(stderr, "%s\n", err.text);
    CHECK(!failed && uids[0] == 10000 && uids[1] == map->host_uid && uids[2] == 1);
    CHECK(gids[0] == 10001 && gids[1] == map->host_gid && gids[2] == 1);
    return 0;
}

static int subordinate_range(void)
{
    struct coto_idmap map;
    struct coto_err err = {0};

    CHECK(become("other:1:5\ntester:200000:65536\n") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &map, &err) == 0 && map.kind == COTO_MAP_SUBUID);
    CHECK(map.host_uid >= 200000 && map.host_uid < 265536);
    return map_is_written(&map);
}

/* A launcher makes many: none has the ids of another. */
static int each_sandbox_its_own(void)
{
    struct coto_idmap first;
    struct coto_idmap second;
    struct coto_err err = {0};

    CHECK(become("tester:200000:65536\n") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &first, &err) == 0 && first.kind == COTO_MAP_SUBUID);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &second, &err) == 0 && second.kind == COTO_MAP_SUBUID);
    CHECK(first.host_uid != second.host_uid && first.host_gid != second.host_gid);
    CHECK(second.host_uid >= 200000 && second.host_uid < 265536);
    return map_is_written(&second);
}

/* A sandbox knows its own, and must not know the next one's by it; nor may two be the same. */
static int cannot_be_guessed(enum coto_idmap_kind kind)
{
    static unsigned char seen[65536];
    struct coto_idmap map = {0};
    struct coto_err err = {0};
    int near = 0;

    for (int i = 0; i < 1000; i++) {
        uid_t before = map.host_uid;
        CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &map, &err) == 0 && map.kind == kind);
        CHECK(map.host_uid >= COTO_IDMAP_BASE || seen[map.host_uid % 65536]++ == 0);
        near += map.host_uid - before + 16 <= 32;
    }
    CHECK(near < 20);
    return 0;
}

static int order_of_subordinate_ids(void)
{
    CHECK(become("tester:200000:65536\n") == 0);
    return cannot_be_guessed(COTO_MAP_SUBUID);
}

static int order_of_ids(void)
{
    return cannot_be_guessed(COTO_MAP_RANGE);
}

static int order_of_ids_in_a_container(void)
{
    CHECK(own_mounts() == 0);
    CHECK(cover_file("/proc/self/uid_map", "0 100000 20000\n") == 0);
    CHECK(cover_file("/proc/self/gid_map", "0 100000 20000\n") == 0);
    return cannot_be_guessed(COTO_MAP_RANGE);
}

/* However few: each has its turn. */
static int all_of_a_range(void)
{
    struct coto_idmap map = {0};
    unsigned seen[5] = {0};

    for (unsigned i = 0; i < 5; i++)
        seen[coto_idmap_subordinate("7:100:5\n", 7, NULL, i, &map) - 100]++;
    for (unsigned i = 0; i < 5; i++)
        CHECK(seen[i] == 1);
    return 0;
}

/* Of a handful of ids nobody is promised one of his own. */
static int few_ids(void)
{
    struct coto_idmap map;
    struct coto_err err = {0};

    CHECK(become("tester:200000:3\n") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &map, &err) == 0 && map.kind == COTO_MAP_SUBUID);
    CHECK(map.host_uid >= 200000 && map.host_uid < 200003);
    CHECK(map.is_shared && strstr(map.why, "of 3 ids"));
    return map_is_written(&map);
}

static int few_ids_of_a_container(void)
{
    struct coto_idmap map;
    struct coto_err err = {0};

    CHECK(own_mounts() == 0);
    CHECK(cover_file("/proc/self/uid_map", "0 100000 65536\n") == 0);
    CHECK(cover_file("/proc/self/gid_map", "0 100000 2\n") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &map, &err) == 0 && map.kind == COTO_MAP_RANGE);
    CHECK(map.host_gid == 1 && map.is_shared);
    return 0;
}

/* A program that uses the library and forks: copies must not go on with the same numbers. */
static int forked_copies(void)
{
    struct coto_idmap mine;
    struct coto_idmap theirs = {0};
    struct coto_err err = {0};
    int told[2];

    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &mine, &err) == 0 && mine.kind == COTO_MAP_RANGE);
    CHECK(pipe(told) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(coto_idmap_choose(COTO_IDMAP_AUTO, &theirs, &err) ||
              write(told[1], &theirs, sizeof theirs) != sizeof theirs);
    CHECK(read(told[0], &theirs, sizeof theirs) == sizeof theirs && waitpid(child, NULL, 0) == child);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &mine, &err) == 0);
    CHECK(mine.host_uid != theirs.host_uid && !mine.is_shared);
    return 0;
}

static int range_by_number(void)
{
    struct coto_idmap map;
    struct coto_err err = {0};

    CHECK(become("nonsense\n65533:300000:1\n") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_SUBUID, &map, &err) == 0 && map.host_uid == 300000);
    return 0;
}

static int no_range(void)
{
    struct coto_idmap map;
    struct coto_err err = {0};

    CHECK(become("other:1:5\n") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_SUBUID, &map, &err) != 0 && err.kind == COTO_ERR_WALL);
    CHECK(strstr(err.text, "no range") && strstr(err.remedy, "usermod"));
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &map, &err) == 0 && map.kind == COTO_MAP_SINGLE);
    CHECK(map.host_uid == USER && map.why[0]);
    return map_is_written(&map);
}

/* newuidmap refuses a range that is not the caller's: an error, not a weaker map. */
static int foreign_range(void)
{
    struct coto_idmap map = {.kind = COTO_MAP_SUBUID, .host_uid = 1, .host_gid = 1};
    struct coto_err err = {0};

    CHECK(become("tester:200000:10\n") == 0);
    pid_t child = start_in_namespace();
    CHECK(child > 0);
    int failed = coto_idmap_write(&map, child, 10000, 10000, &err);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(failed && strstr(err.text, "newuidmap"));
    return 0;
}

static int root_of_one_id(void)
{
    struct coto_idmap map;
    struct coto_err err = {0};

    CHECK(unshare(CLONE_NEWUSER) == 0);
    CHECK(write_text("/proc/self/setgroups", "deny") == 0);
    CHECK(write_text("/proc/self/uid_map", "0 0 1") == 0 &&
          write_text("/proc/self/gid_map", "0 0 1") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &map, &err) == 0 && map.kind == COTO_MAP_SINGLE);
    CHECK(strstr(map.why, "single id"));
    return 0;
}

static int root_of_a_container(void)
{
    struct coto_idmap first;
    struct coto_idmap second;
    struct coto_err err = {0};

    CHECK(own_mounts() == 0);
    CHECK(cover_file("/proc/self/uid_map", "0 100000 65536\n") == 0);
    CHECK(cover_file("/proc/self/gid_map", "0 100000 65536\n") == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &first, &err) == 0);
    CHECK(coto_idmap_choose(COTO_IDMAP_AUTO, &second, &err) == 0);
    CHECK(first.kind == COTO_MAP_RANGE && first.host_uid > 0 && first.host_uid < 65536);
    CHECK(second.host_uid != first.host_uid && second.host_uid < 65536);
    return 0;
}

CHILD_TEST(subordinate_range)
CHILD_TEST(each_sandbox_its_own)
CHILD_TEST(order_of_subordinate_ids)
CHILD_TEST(order_of_ids)
CHILD_TEST(order_of_ids_in_a_container)
CHILD_TEST(all_of_a_range)
CHILD_TEST(few_ids)
CHILD_TEST(few_ids_of_a_container)
CHILD_TEST(forked_copies)
CHILD_TEST(range_by_number)
CHILD_TEST(no_range)
CHILD_TEST(foreign_range)
CHILD_TEST(root_of_one_id)
CHILD_TEST(root_of_a_container)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subordinate_range), cmocka_unit_test(test_range_by_number),
        cmocka_unit_test(test_no_range),          cmocka_unit_test(test_foreign_range),
        cmocka_unit_test(test_root_of_one_id),    cmocka_unit_test(test_root_of_a_container),
        cmocka_unit_test(test_each_sandbox_its_own), cmocka_unit_test(test_few_ids),
        cmocka_unit_test(test_few_ids_of_a_container), cmocka_unit_test(test_forked_copies),
        cmocka_unit_test(test_order_of_subordinate_ids), cmocka_unit_test(test_order_of_ids),
        cmocka_unit_test(test_order_of_ids_in_a_container), cmocka_unit_test(test_all_of_a_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
