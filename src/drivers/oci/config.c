/* config.json of a bundle (OCI runtime specification 1.0), from the plan. */
#include "drivers/oci/oci.h"

#include "base/json.h"
#include "base/units.h"
#include "drivers/seccomp_profile.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#define CPU_PERIOD_US 100000
/* What a runtime itself needs inside the group until coto-init runs; then the plan's own limits
 * take over, and are read back. */
#define START_PIDS 64
#define START_MEMORY (64 * COTO_MB)

static void add_strings(struct coto_json *j, const char *key, const char *const *items)
{
    coto_json_begin(j, key, '[');
    for (size_t i = 0; items[i]; i++)
        coto_json_str(j, NULL, items[i]);
    coto_json_end(j, ']');
}

/* ---- process ---- */

static void add_capabilities(struct coto_json *j, uint64_t caps)
{
    static const char *const sets[] = {"bounding", "effective", "inheritable", "permitted", "ambient"};
    static const struct {
        int bit;
        const char *name;
    } names[] = {{CAP_CHOWN, "CAP_CHOWN"}, {CAP_FOWNER, "CAP_FOWNER"}, {CAP_SETGID, "CAP_SETGID"},
                 {CAP_SETUID, "CAP_SETUID"}};

    coto_json_begin(j, "capabilities", '{');
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        coto_json_begin(j, sets[i], '[');
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (caps >> names[k].bit & 1)
                coto_json_str(j, NULL, names[k].name);
        coto_json_end(j, ']');
    }
    coto_json_end(j, '}');
}

static void add_process(struct coto_json *j, const struct oci *oci)
{
    const struct coto_plan *plan = oci->plan;
    char dir[4200];
    const char *const args[] = {OCI_INIT_INSIDE, "--in=0", "--out=1", dir, NULL};

    snprintf(dir, sizeof dir, "--dir=%s", plan->workdir);
    coto_json_begin(j, "process", '{');
    coto_json_bool(j, "terminal", false);
    coto_json_begin(j, "user", '{');
    coto_json_int(j, "uid", plan->uid);
    coto_json_int(j, "gid", plan->gid);
    coto_json_end(j, '}');
    add_strings(j, "args", args);
    coto_json_begin(j, "env", '[');
    coto_json_end(j, ']');
    coto_json_str(j, "cwd", "/");
    add_capabilities(j, plan->caps);
    coto_json_bool(j, "noNewPrivileges", true);
    coto_json_int(j, "oomScoreAdj", 1000);
    coto_json_end(j, '}');
}

/* ---- mounts ---- */

static void add_mount(struct coto_json *j, const char *target, const char *type, const char *source,
                      const char *const *options)
{
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "destination", target);
    coto_json_str(j, "type", type);
    coto_json_str(j, "source", source);
    add_strings(j, "options", options);
    coto_json_end(j, '}');
}

static void add_tmpfs(struct coto_json *j, const struct coto_plan *plan, const char *target,
                      int64_t bytes, const char *mode)
{
    char size[32];
    char inodes[32];
    char uid[32];
    char gid[32];
    char perm[16];
    const char *const options[] = {"nosuid", "nodev", perm, size, inodes, uid, gid,
                                   plan->noexec ? "noexec" : NULL, NULL};

    snprintf(size, sizeof size, "size=%" PRId64, bytes);
    snprintf(inodes, sizeof inodes, "nr_inodes=%" PRId64, plan->inodes);
    snprintf(uid, sizeof uid, "uid=%u", (unsigned)plan->uid);
    snprintf(gid, sizeof gid, "gid=%u", (unsigned)plan->gid);
    snprintf(perm, sizeof perm, "mode=%s", mode);
    add_mount(j, target, "tmpfs", "tmpfs", options);
}

const char *const oci_devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", NULL};

bool oci_has_own_dev(const struct oci *oci)
{
    return !oci->chosen.runtime->own_kernel;
}

/* Read-only keeps the host's node from being re-dated; devices are written all the same. */
static void add_own_dev(struct coto_json *j, const struct oci *oci)
{
    static const char *const dir[] = {"bind", "rprivate", "ro", "nosuid", "noexec", "nodev", NULL};
    static const char *const node[] = {"bind", "rprivate", "ro", "nosuid", "noexec", NULL};
    char source[PATH_MAX];

    snprintf(source, sizeof source, "%s/rootfs/dev", oci->dir);
    add_mount(j, "/dev", "bind", source, dir);
    for (size_t i = 0; oci_devices[i]; i++)
        add_mount(j, oci_devices[i], "bind", oci_devices[i], node);
}

/* As init_root_terminals. gVisor has them whatever is mounted there, but makes none where that is
 * read-only; with N > 0 it does not count them, and the time they take is the sandbox's. */
static void add_terminals(struct coto_json *j, const struct oci *oci)
{
    static const char *const none[] = {"ro",      "nosuid",    "nodev", "noexec",
                                       "size=4k", "mode=0555", NULL};
    char max[32];
    const char *const pts[] = {"nosuid",    "noexec", "newinstance", "ptmxmode=0666",
                               "mode=0620", max,      NULL};

    snprintf(max, sizeof max, "max=%" PRId64, oci->plan->ptys);
    if (oci->plan->ptys > 0)
        add_mount(j, "/dev/pts", "devpts", "devpts", pts);
    else if (!oci_has_own_dev(oci))
        add_mount(j, "/dev/pts", "tmpfs", "tmpfs", none);
}

static void add_kernel_mounts(struct coto_json *j, const struct oci *oci)
{
    const struct coto_plan *plan = oci->plan;
    static const char *const proc[] = {"nosuid", "noexec", "nodev", NULL};
    static const char *const dev[] = {"nosuid", "noexec", "mode=755", "size=64k", NULL};

    add_mount(j, "/proc", "proc", "proc", proc);
    if (oci_has_own_dev(oci))
        add_own_dev(j, oci);
    else
        add_mount(j, "/dev", "tmpfs", "tmpfs", dev);
    add_terminals(j, oci);
    add_tmpfs(j, plan, "/dev/shm", plan->tmp_bytes, "1777");
}

/* What is mounted below a view comes along, and "ro" alone says nothing of it. crun takes the
 * words for directories only; gVisor has none: there a view is one mount, whatever lies below. */
static void add_view(struct coto_json *j, const struct oci *oci, const struct oci_binds *binds, size_t i)
{
    bool rw = binds->items[i].writable;
    bool noexec = rw && oci->plan->noexec;
    const char *options[12] = {"rbind", "rprivate", rw ? "rw" : "ro", "nosuid", "nodev"};
    size_t n = 5;

    if (noexec)
        options[n++] = "noexec";
    if (binds->items[i].is_dir && !oci->chosen.runtime->own_kernel) {
        options[n++] = "rnosuid";
        options[n++] = "rnodev";
        if (!rw || noexec)
            options[n++] = rw ? "rnoexec" : "rro";
    }
    add_mount(j, binds->items[i].target, "bind", binds->items[i].source, options);
}

static void add_mounts(struct coto_json *j, const struct oci *oci, const struct oci_binds *binds)
{
    const struct coto_plan *plan = oci->plan;

    coto_json_begin(j, "mounts", '[');
    add_kernel_mounts(j, oci);
    /* The root's views come first, the policy's own last, on whatever lies below. */
    for (int own = 0; own < 2; own++) {
        for (size_t i = 0; i < binds->count; i++) {
            bool is_last = i + 1 + plan->mount_count >= binds->count;
            if (is_last == (own == 1))
                add_view(j, oci, binds, i);
        }
        if (own == 1)
            break;
        add_tmpfs(j, plan, "/tmp", plan->tmp_bytes, "1777");
        add_tmpfs(j, plan, plan->workdir, plan->disk_bytes, "0755");
        for (size_t i = 0; i < plan->tmpfs_count; i++)
            add_tmpfs(j, plan, plan->tmpfs[i].target, plan->tmpfs[i].size, "1777");
    }
    coto_json_end(j, ']');
}

/* ---- linux ---- */

static void add_namespaces(struct coto_json *j, const struct oci *oci)
{
    static const char *const kinds[] = {"pid", "network", "ipc", "uts", "mount", "cgroup", "user"};

    coto_json_begin(j, "namespaces", '[');
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i], "user") == 0 && !oci->has_userns)
            continue;
        coto_json_begin(j, NULL, '{');
        coto_json_str(j, "type", kinds[i]);
        coto_json_end(j, '}');
    }
    coto_json_end(j, ']');
}

static void add_map(struct coto_json *j, const char *key, unsigned id, unsigned host, unsigned host0)
{
    const unsigned rows[2][2] = {{0, host0}, {id, host}};

    coto_json_begin(j, key, '[');
    for (int i = 0; i < 2; i++) {
        coto_json_begin(j, NULL, '{');
        coto_json_int(j, "containerID", rows[i][0]);
        coto_json_int(j, "hostID", rows[i][1]);
        coto_json_int(j, "size", 1);
        coto_json_end(j, '}');
    }
    coto_json_end(j, ']');
}

static void add_resources(struct coto_json *j, const struct oci *oci)
{
    const struct coto_cgroup_limits *l = &oci->limits;

    coto_json_begin(j, "resources", '{');
    if (l->memory_bytes != COTO_UNIT_NONE) {
        int64_t memory = l->memory_bytes < START_MEMORY ? START_MEMORY : l->memory_bytes;
        coto_json_begin(j, "memory", '{');
        coto_json_int(j, "limit", memory);
        if (l->swap_bytes != COTO_UNIT_NONE)
            coto_json_int(j, "swap", memory + l->swap_bytes);
        coto_json_end(j, '}');
    }
    if (l->pids != COTO_UNIT_NONE) {
        coto_json_begin(j, "pids", '{');
        coto_json_int(j, "limit", l->pids < START_PIDS ? START_PIDS : l->pids);
        coto_json_end(j, '}');
    }
    if (l->cpus_milli != COTO_UNIT_NONE) {
        coto_json_begin(j, "cpu", '{');
        coto_json_int(j, "quota", l->cpus_milli * CPU_PERIOD_US / 1000);
        coto_json_int(j, "period", CPU_PERIOD_US);
        coto_json_end(j, '}');
    }
    coto_json_end(j, '}');
}

static void add_hidden(struct coto_json *j)
{
    static const char *const masked[] = {
        "/proc/acpi",     "/proc/asound",        "/proc/interrupts", "/proc/kallsyms",
        "/proc/kcore",    "/proc/key-users",     "/proc/keys",       "/proc/latency_stats",
        "/proc/locks",    "/proc/sched_debug",   "/proc/scsi",       "/proc/timer_list",
        "/proc/timer_stats", "/sys/firmware",    NULL};
    static const char *const read_only[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                            "/proc/sysrq-trigger", NULL};

    add_strings(j, "maskedPaths", masked);
    add_strings(j, "readonlyPaths", read_only);
}

static int add_linux(struct coto_json *j, const struct oci *oci, struct coto_err *err)
{
    const struct coto_plan *plan = oci->plan;
    char path[80];

    coto_json_begin(j, "linux", '{');
    add_namespaces(j, oci);
    if (oci->has_userns) {
        add_map(j, "uidMappings", plan->uid, oci->map.host_uid, oci->map0.host_uid);
        add_map(j, "gidMappings", plan->gid, oci->map.host_gid, oci->map0.host_gid);
    }
    if (oci->has_group) {
        /* On v1 below the caller's own group, on v2 at the top: where kernel/cgroup.c made it. */
        snprintf(path, sizeof path, "%s%s", oci->cgroup_host.version == 2 ? "/" : "", oci->name);
        coto_json_str(j, "cgroupsPath", path);
        add_resources(j, oci);
    }
    add_hidden(j);
    coto_json_str(j, "rootfsPropagation", "private");
    if (!oci->chosen.runtime->own_kernel) {
        coto_auto_buf profile = {0};
        if (coto_seccomp_profile(plan->seccomp_tier, plan->noexec, &profile, err))
            return -1;
        coto_json_raw(j, "seccomp", coto_buf_str(&profile));
    }
    coto_json_end(j, '}');
    return 0;
}

int oci_config_make(const struct oci *oci, const struct oci_binds *binds, struct coto_buf *out,
                    struct coto_err *err)
{
    struct coto_json j = {.out = out};

    coto_json_begin(&j, NULL, '{');
    coto_json_str(&j, "ociVersion", "1.0.2");
    add_process(&j, oci);
    coto_json_begin(&j, "root", '{');
    coto_json_str(&j, "path", "rootfs");
    coto_json_bool(&j, "readonly", true);
    coto_json_end(&j, '}');
    coto_json_str(&j, "hostname", oci->plan->hostname);
    add_mounts(&j, oci, binds);
    if (add_linux(&j, oci, err))
        return -1;
    coto_json_end(&j, '}');
    return out->failed ? coto_err_set(err, COTO_ERR_LIMIT, 0, "bundle: config.json") : 0;
}
