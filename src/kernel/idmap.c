#include "kernel/idmap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/weak.h"
#include "schema/options.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"
#define NUMBERS (1u << 26)
#define MAP_TEXT 2048
#define ROUNDS 4
#define OWN_TRIES 10000 /* half a second and more: one that dies meanwhile is not waited for any longer */
#define RANGE_MIN 4096u /* ids from which two sandboxes rarely pick the same */

/* No two sandboxes that live at the same time have the same: each process, and each copy
 * that it forks, counts in an order of its own, and there are far more numbers than sandboxes. Not by pid,
 * which another pid namespace has too. */
static struct {
    pid_t owner;
    unsigned next;
    unsigned char key[32];
} order;

static unsigned sandbox_number(void)
{
    if (order.owner != getpid()) {
        order.owner = getpid();
        if (getrandom(order.key, sizeof order.key, GRND_NONBLOCK) != sizeof order.key) {
            int64_t now = coto_clock_us();
            memcpy(order.key, &now, sizeof now);
            memcpy(order.key + sizeof now, &order.owner, sizeof order.owner);
        }
    }
    return order.next++ % NUMBERS;
}

static unsigned scramble(unsigned round, unsigned value)
{
    struct coto_sha256 sha;
    char hex[COTO_SHA256_HEX];
    unsigned words[2] = {round, value};

    coto_sha256_init(&sha);
    coto_sha256_add(&sha, order.key, sizeof order.key);
    coto_sha256_add(&sha, words, sizeof words);
    coto_sha256_hex(&sha, hex);
    hex[8] = '\0';
    return (unsigned)strtoul(hex, NULL, 16);
}

/* A sandbox sees its own number, and must not know another's by it. Drawn anew each time, two of a thousand sandboxes
 * would soon have the same; so it is a counter in a secret order (Feistel; what falls outside goes round again):
 * of `span` in a row no two are the same. */
static unsigned place_of(unsigned number, unsigned span)
{
    unsigned half = 1;

    while (2 * half < 32 && 1u << 2 * half < span)
        half++;
    number %= span;
    do {
        unsigned left = number >> half;
        unsigned right = number & ((1u << half) - 1);
        for (unsigned round = 0; round < ROUNDS; round++) {
            unsigned next = left ^ (scramble(round, right) & ((1u << half) - 1));
            left = right;
            right = next;
        }
        number = left << half | right;
    } while (number >= span);
    return number;
}

static void note_few(struct coto_idmap *map, unsigned count)
{
    if (count >= RANGE_MIN)
        return;
    map->is_shared = true;
    snprintf(map->why, sizeof map->why, "of %u ids to choose from two sandboxes may have the same",
             count);
}

/* Digits alone, of this line; sscanf would take a sign, wrap around, and go on in the next line. */
static bool take_number(const char **at, const char *blank, unsigned *ret_number)
{
    char *end;

    *at += strspn(*at, blank);
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(*at, &end, 10);
    *at = end;
    *ret_number = (unsigned)value;
    return errno == 0 && value <= UINT32_MAX;
}

/* The last number is nobody's: to the kernel it means "leave it as it is". */
static bool is_range(unsigned start, unsigned count)
{
    return count > 0 && count <= UINT32_MAX - start;
}

unsigned coto_idmap_pick(const char *text, unsigned number, struct coto_idmap *map)
{
    unsigned best = 0;
    unsigned best_count = 1;

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        unsigned inside;
        unsigned outside;
        unsigned count;
        line += *line == '\n';
        const char *at = line;
        if (!take_number(&at, " ", &inside) || !take_number(&at, " ", &outside) ||
            !take_number(&at, " ", &count) ||
            !is_range(inside, count))
            break;
        unsigned wanted = COTO_IDMAP_BASE + place_of(number, NUMBERS);
        if (wanted - inside < count && wanted >= inside)
            return wanted;
        if (count > best_count) {
            unsigned span = count - 1 < 32768 ? count - 1 : 32768;
            best = inside + count - 1 - place_of(number, span);
            best_count = count;
        }
    }
    note_few(map, best_count - 1);
    return best;
}

/* The kernel lets a map be written once: `text` keeps what was read. */
static unsigned pick_from(const char *file, char text[MAP_TEXT], unsigned number,
                          struct coto_idmap *map)
{
    if (!text[0] && coto_file_read_at(AT_FDCWD, file, text, MAP_TEXT) <= 0)
        return 0;
    return coto_idmap_pick(text, number, map);
}

static bool may_map_ranges(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    uint32_t need = 1u << CAP_SETUID | 1u << CAP_SETGID;

    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & need) == need;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* A range that begins with root's id, or that does not fit into the numbers, is no range. */
unsigned coto_idmap_subordinate(const char *text, uid_t uid, const char *name, unsigned number,
                                struct coto_idmap *map)
{
    char id[16];

    snprintf(id, sizeof id, "%u", (unsigned)uid);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        unsigned start;
        unsigned count;
        line += *line == '\n';
        size_t len = strcspn(line, ":\n");
        const char *at = line + len + 1;
        if (line[len] != ':' || !(is_word(line, len, id) || (name && is_word(line, len, name))) ||
            !take_number(&at, "", &start) || *at++ != ':' || !take_number(&at, "", &count) ||
            !is_range(start, count) || start == 0)
            continue;
        note_few(map, count);
        return start + place_of(number, count < 65536 ? count : 65536);
    }
    return 0;
}

static unsigned subordinate(const char *file, const char *name, unsigned number,
                            struct coto_idmap *map)
{
    coto_auto_buf buf = {0};
    coto_auto_fd fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || coto_fd_read_all(fd, 1 << 20, &buf))
        return 0;
    return coto_idmap_subordinate(coto_buf_str(&buf), getuid(), name, number, map);
}

/* NULL, or why there are none for it: a constant. */
static const char *find_subuid(struct coto_idmap *map)
{
    struct passwd *pw = getpwuid(getuid());
    const char *name = pw ? pw->pw_name : NULL;
    unsigned number = sandbox_number();

    if (access(NEWUIDMAP, X_OK) || access(NEWGIDMAP, X_OK))
        return "newuidmap is not installed (Debian package uidmap)";
    map->host_uid = subordinate("/etc/subuid", name, number, map);
    map->host_gid = subordinate("/etc/subgid", name, number, map);
    if (!map->host_uid || !map->host_gid)
        return "the caller has no range in /etc/subuid and /etc/subgid";
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return "newuidmap has no rights here: no_new_privs is set";
    map->kind = COTO_MAP_SUBUID;
    return NULL;
}

/* A launcher asks for each sandbox, and who has no_new_privs keeps it: the answer of the first time stands. */
static bool choose_subuid(struct coto_idmap *map)
{
    static const char *_Atomic never; /* thread-local it would be mapped before main, and crash where that fails */
    const char *why = never;

    if (!why && (why = find_subuid(map)) && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        never = why;
    if (why)
        snprintf(map->why, sizeof map->why, "%s", why);
    return !why;
}

bool coto_idmap_has_helpers(void)
{
    struct coto_idmap map = {0};

    return choose_subuid(&map);
}

int coto_idmap_choose(int mode, struct coto_idmap *ret_map, struct coto_err *err)
{
    struct coto_idmap map = {.kind = COTO_MAP_SINGLE, .host_uid = geteuid(), .host_gid = getegid()};

    if (!coto_up("uid")) {
        *ret_map = map;
        return 0;
    }
    if (mode != COTO_IDMAP_SUBUID && may_map_ranges()) {
        static char uids[MAP_TEXT];
        static char gids[MAP_TEXT];
        unsigned number = sandbox_number();
        struct coto_idmap range = {.kind = COTO_MAP_RANGE};
        range.host_uid = pick_from("/proc/self/uid_map", uids, number, &range);
        range.host_gid = pick_from("/proc/self/gid_map", gids, number, &range);
        if (range.host_uid && range.host_gid) {
            *ret_map = range;
            return 0;
        }
        snprintf(map.why, sizeof map.why, "the user namespace around coto maps a single id");
    } else if (mode != COTO_IDMAP_SINGLE && !choose_subuid(&map)) {
        if (mode == COTO_IDMAP_SUBUID) {
            coto_err_set(err, COTO_ERR_WALL, 0, "--idmap subuid: %s", map.why);
            return coto_err_remedy(err, "install uidmap and add a range: usermod --add-subuids "
                                        "100000-165535 --add-subgids 100000-165535 USER");
        }
        map.kind = COTO_MAP_SINGLE;
        map.is_shared = false;
        map.host_uid = geteuid();
        map.host_gid = getegid();
    }
    *ret_map = map;
    return 0;
}

static pid_t start_helper(const char *program, pid_t pid, unsigned inside, unsigned outside)
{
    char p[16];
    char in[16];
    char out[16];
    char *argv[] = {(char *)program, p, in, out, (char *)"1", NULL};
    char *envp[] = {NULL};

    snprintf(p, sizeof p, "%d", (int)pid);
    snprintf(in, sizeof in, "%u", inside);
    snprintf(out, sizeof out, "%u", outside);
    pid_t child = vfork();
    if (child == 0) {
        execve(program, argv, envp);
        _exit(127);
    }
    return child;
}

static int helper_done(pid_t child, const char *program, struct coto_err *err)
{
    int status = 0;

    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        return coto_err_set(err, COTO_ERR_WALL, 0, "%s failed (status %d)", program, status);
    return 0;
}

static int write_map(pid_t pid, uid_t owner, const char *file, const char *text, struct coto_err *err)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    /* It is the process's own once that has executed its program. */
    coto_auto_fd fd = coto_path_open_as(path, O_WRONLY, owner);
    if (fd < 0 || coto_fd_write_value(fd, text))
        return coto_err_set(err, COTO_ERR_WALL, errno, "user namespace: write %s", file);
    return 0;
}

/* A child of a process that is not dumpable becomes so a moment after it has begun to execute its program, and after whoever waits for
 * that in vfork has been woken. Until then its files are root's. */
static void wait_for_own(pid_t pid)
{
    const struct timespec moment = {.tv_nsec = 50000};
    char path[64];
    struct stat st;

    if (geteuid() == 0 || prctl(PR_GET_DUMPABLE) == 1)
        return;
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    for (int i = 0; i < OWN_TRIES && stat(path, &st) == 0 && st.st_uid != geteuid(); i++)
        nanosleep(&moment, NULL);
}

int coto_idmap_write(const struct coto_idmap *map, pid_t pid, uid_t uid, gid_t gid,
                     struct coto_err *err)
{
    char path[64];
    char uids[64];
    char gids[64];

    wait_for_own(pid);
    if (map->kind == COTO_MAP_SUBUID) {
        pid_t a = start_helper(NEWUIDMAP, pid, uid, map->host_uid);
        pid_t b = start_helper(NEWGIDMAP, pid, gid, map->host_gid);
        int failed = helper_done(a, NEWUIDMAP, err);
        return helper_done(b, NEWGIDMAP, failed ? NULL : err) | failed;
    }
    if (map->kind == COTO_MAP_SINGLE) {
        snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
        if (coto_file_write_at(AT_FDCWD, path, "deny") && errno != ENOENT)
            return coto_err_set(err, COTO_ERR_WALL, errno, "user namespace: deny setgroups");
    }
    snprintf(uids, sizeof uids, "%u %u 1\n", uid, map->host_uid);
    snprintf(gids, sizeof gids, "%u %u 1\n", gid, map->host_gid);
    if (write_map(pid, map->host_uid, "uid_map", uids, err))
        return -1;
    return write_map(pid, map->host_uid, "gid_map", gids, err);
}
