/* A plan as the flags of a container. Every value here is looked for in what the engine shows
 * of the container it made (coto-docker), so what would be a hole if it were set is named with
 * the value that it must have. */
#include "drivers/docker/docker.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/units.h"
#include "drivers/cgroup_walls.h"
#include "drivers/seccomp_profile.h"
#include "wire/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROFILES_MAX ((size_t)4 << 20)

static const struct {
    int bit;
    const char *name;
} caps[] = {{0, "CHOWN"}, {3, "FOWNER"}, {6, "SETGID"}, {7, "SETUID"}};

/* By its name only: what the engine starts under it is seen when it runs. */
static bool has_own_kernel(const char *runtime)
{
    return runtime &&
           (strstr(runtime, "runsc") || strstr(runtime, "gvisor") || strstr(runtime, "kata"));
}

/* coto-init counts too, and one process is not enough for it and a program. */
int64_t docker_pids_of_programs(const struct coto_plan *plan)
{
    if (plan->pids == COTO_UNIT_NONE)
        return 0;
    return plan->pids < 2 ? 2 : plan->pids;
}

int64_t docker_pids(const struct coto_plan *plan)
{
    return plan->pids != COTO_UNIT_NONE && has_own_kernel(plan->runtime)
               ? COTO_GUEST_TASKS(plan->pids)
               : docker_pids_of_programs(plan);
}

static void add_tmpfs(struct coto_json *json, const struct coto_plan *plan, const char *target,
                      int64_t size)
{
    char text[200];

    snprintf(text, sizeof text,
             "rw,nosuid,nodev,%s,size=%" PRId64 ",nr_inodes=%" PRId64 ",mode=0700,uid=%u,gid=%u",
             plan->noexec ? "noexec" : "exec", size, plan->inodes, (unsigned)plan->uid,
             (unsigned)plan->gid);
    coto_json_str(json, target, text);
}

static void add_places(struct coto_json *json, const struct coto_plan *plan)
{
    coto_json_begin(json, "Tmpfs", '{');
    add_tmpfs(json, plan, "/tmp", plan->tmp_bytes);
    add_tmpfs(json, plan, plan->workdir, plan->disk_bytes);
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        add_tmpfs(json, plan, plan->tmpfs[i].target, plan->tmpfs[i].size);
    /* In the place of the engine's devpts: see init_root_terminals, and policy/check.c. */
    coto_json_str(json, "/dev/pts", "ro,nosuid,nodev,noexec,size=4096,nr_inodes=1,mode=0555");
    coto_json_end(json, '}');
    coto_json_int(json, "ShmSize", plan->tmp_bytes);
    coto_json_bool(json, "ReadonlyRootfs", true);
}

static void add_mounts(struct coto_json *json, const char *init_path)
{
    coto_json_begin(json, "Mounts", '[');
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "Type", "bind");
    coto_json_str(json, "Source", init_path);
    coto_json_str(json, "Target", COTO_DOCKER_INIT);
    coto_json_bool(json, "ReadOnly", true);
    coto_json_end(json, '}');
    coto_json_end(json, ']');
}

/* The profile is the whole container's, and coto-init puts files where the program may not write: a
 * profile that is as narrow as such a policy cannot hold both. */
static const char *profile_of(const struct coto_plan *plan)
{
    return plan->apparmor && plan->writable_output_only ? coto_options[COTO_OPT_APPARMOR].fallback
                                                        : plan->apparmor;
}

static int check_profile(const struct coto_plan *plan, struct coto_err *err)
{
    if (!(plan->need & COTO_WALL_BIT(APPARMOR)) || !plan->apparmor ||
        strcmp(profile_of(plan), plan->apparmor) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_WALL, 0,
                 "apparmor: profile '%s' cannot be a container's: coto-init puts files where it lets nobody write",
                 plan->apparmor);
    return coto_err_remedy(err, "leave apparmor out of --require, or use --isolation container --runtime runc");
}

/* An engine fails to start a container with a profile that is not loaded; without a name it
 * applies its own. Who may not read the list asks by name only if the policy insists. */
static bool names_profile(const struct coto_plan *plan)
{
    coto_auto_fd fd = open("/sys/kernel/security/apparmor/profiles", O_RDONLY | O_CLOEXEC);
    coto_auto_buf loaded = {0};
    coto_auto_buf line = {0};

    if (!plan->apparmor || !(plan->want & COTO_WALL_BIT(APPARMOR)))
        return false;
    if (plan->need & COTO_WALL_BIT(APPARMOR))
        return true;
    coto_buf_addc(&loaded, '\n');
    coto_buf_addf(&line, "\n%s (", profile_of(plan));
    return fd >= 0 && coto_fd_read_all(fd, PROFILES_MAX, &loaded) == 0 && !line.failed &&
           strstr(coto_buf_str(&loaded), coto_buf_str(&line));
}

static int add_security(struct coto_json *json, const struct coto_plan *plan, struct coto_err *err)
{
    coto_auto_buf seccomp = {0};
    coto_auto_buf apparmor = {0};

    coto_buf_adds(&seccomp, "seccomp=");
    if (check_profile(plan, err) ||
        coto_seccomp_profile(plan->seccomp_tier, plan->noexec, &seccomp, err))
        return -1;
    coto_buf_addf(&apparmor, "apparmor=%s", plan->apparmor ? profile_of(plan) : "");
    coto_json_begin(json, "SecurityOpt", '[');
    coto_json_str(json, NULL, "no-new-privileges");
    coto_json_strn(json, NULL, seccomp.data, seccomp.len);
    if (names_profile(plan))
        coto_json_str(json, NULL, coto_buf_str(&apparmor));
    coto_json_end(json, ']');
    coto_json_begin(json, "CapDrop", '[');
    coto_json_str(json, NULL, "ALL");
    coto_json_end(json, ']');
    coto_json_begin(json, "CapAdd", '[');
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++)
        if (plan->caps >> caps[i].bit & 1)
            coto_json_str(json, NULL, caps[i].name);
    coto_json_end(json, ']');
    return seccomp.failed || apparmor.failed ? coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker")
                                             : 0;
}

static void add_limits(struct coto_json *json, const struct coto_plan *plan)
{
    int64_t memory = plan->memory_bytes;

    if (memory != COTO_UNIT_NONE) {
        coto_json_int(json, "Memory", memory);
        coto_json_int(json, "MemorySwap",
                      plan->swap_bytes == COTO_UNIT_NONE ? -1 : memory + plan->swap_bytes);
    }
    if (plan->cpus_milli != COTO_UNIT_NONE)
        coto_json_int(json, "NanoCpus", plan->cpus_milli * 1000000);
    if (plan->pids != COTO_UNIT_NONE)
        coto_json_int(json, "PidsLimit", docker_pids(plan));
    coto_json_int(json, "OomScoreAdj", 1000); /* before anything else of the host */
    /* Of coto-init; it gives the program what the policy says. */
    coto_json_begin(json, "Ulimits", '[');
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "Name", "core");
    coto_json_int(json, "Soft", 1);
    coto_json_int(json, "Hard", 1);
    coto_json_end(json, '}');
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "Name", "nofile");
    coto_json_int(json, "Soft", plan->nofile > 1024 ? plan->nofile : 1024);
    coto_json_int(json, "Hard", plan->nofile > 1024 ? plan->nofile : 1024);
    coto_json_end(json, '}');
    coto_json_end(json, ']');
}

/* What engines can be told to do by default, or by an image, and must not do here. */
static void add_never(struct coto_json *json)
{
    static const char *const lists[] = {
        "Binds",       "Devices", "DeviceRequests", "DeviceCgroupRules",
        "VolumesFrom", "Links",   "ExtraHosts",     "GroupAdd",
        "Dns"};
    static const char *const off[] = {"Privileged", "PublishAllPorts", "OomKillDisable", "Init"};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        coto_json_begin(json, lists[i], '[');
        coto_json_end(json, ']');
    }
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        coto_json_bool(json, off[i], false);
    coto_json_begin(json, "PortBindings", '{');
    coto_json_end(json, '}');
    coto_json_str(json, "PidMode", "");
    coto_json_str(json, "UTSMode", "");
    coto_json_str(json, "UsernsMode", "");
    coto_json_str(json, "CgroupParent", "");
}

static int add_host_config(struct coto_json *json, const struct coto_plan *plan,
                           const char *init_path, struct coto_err *err)
{
    coto_json_begin(json, "HostConfig", '{');
    coto_json_bool(json, "AutoRemove", true);
    coto_json_str(json, "NetworkMode", "none");
    coto_json_str(json, "IpcMode", "private");
    coto_json_str(json, "CgroupnsMode", "private");
    if (plan->runtime)
        coto_json_str(json, "Runtime", plan->runtime);
    /* Nothing of what the program says stays on the host. */
    coto_json_begin(json, "LogConfig", '{');
    coto_json_str(json, "Type", "none");
    coto_json_end(json, '}');
    coto_json_begin(json, "RestartPolicy", '{');
    coto_json_str(json, "Name", "no");
    coto_json_end(json, '}');
    add_places(json, plan);
    add_mounts(json, init_path);
    add_limits(json, plan);
    add_never(json);
    int failed = add_security(json, plan, err);
    coto_json_end(json, '}');
    return failed;
}

static void add_command(struct coto_json *json, const struct coto_plan *plan)
{
    coto_auto_buf dir = {0};

    coto_buf_addf(&dir, "--dir=%s", plan->workdir);
    coto_json_begin(json, "Entrypoint", '[');
    coto_json_str(json, NULL, COTO_DOCKER_INIT);
    coto_json_end(json, ']');
    coto_json_begin(json, "Cmd", '[');
    coto_json_str(json, NULL, "--in=0");
    coto_json_str(json, NULL, "--out=1");
    coto_json_str(json, NULL, coto_buf_str(&dir));
    coto_json_end(json, ']');
}

int docker_spec(const struct coto_plan *plan, const char *init_path, struct coto_buf *out,
                struct coto_err *err)
{
    struct coto_json json = {.out = out};
    char user[32];

    snprintf(user, sizeof user, "%u:%u", (unsigned)plan->uid, (unsigned)plan->gid);
    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "Image", plan->image);
    coto_json_str(&json, "User", user);
    coto_json_str(&json, "Hostname", plan->hostname);
    coto_json_str(&json, "WorkingDir", "/");
    coto_json_bool(&json, "Tty", false);
    coto_json_bool(&json, "OpenStdin", true);
    coto_json_bool(&json, "StdinOnce", true);
    coto_json_bool(&json, "AttachStdin", true);
    coto_json_bool(&json, "AttachStdout", true);
    coto_json_bool(&json, "AttachStderr", true);
    coto_json_bool(&json, "NetworkDisabled", true);
    add_command(&json, plan);
    coto_json_begin(&json, "Healthcheck", '{'); /* an image's own would run beside the program */
    coto_json_begin(&json, "Test", '[');
    coto_json_str(&json, NULL, "NONE");
    coto_json_end(&json, ']');
    coto_json_end(&json, '}');
    coto_json_begin(&json, "Labels", '{');
    coto_json_str(&json, COTO_DOCKER_LABEL, plan->id);
    coto_json_str(&json, "coto.profile", plan->profile);
    coto_json_end(&json, '}');
    int failed = add_host_config(&json, plan, init_path, err);
    coto_json_end(&json, '}');
    if (!failed && out->failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker");
    return failed;
}
