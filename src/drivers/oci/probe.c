/* coto doctor's view: which runtimes are here, and whether they may be used. */
#include "drivers/oci/oci.h"

#include "drivers/apparmor_probe.h"
#include "drivers/cgroup_walls.h"
#include "kernel/landlock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void all(struct coto_probe *probe, coto_wallset walls, const char *mechanism)
{
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (walls >> i & 1)
            coto_wall_say(&probe->walls[i], true, mechanism, "");
}

static void none(struct coto_probe *probe, enum coto_wall wall, const char *note, const char *remedy)
{
    probe->walls[wall].up = false;
    snprintf(probe->walls[wall].note, sizeof probe->walls[wall].note, "%s", note);
    snprintf(probe->remedy[wall], sizeof probe->remedy[wall], "%s", remedy);
}

static void probe_limits(struct coto_probe *probe)
{
    static const enum coto_wall limits[] = {COTO_WALL_MEMORY, COTO_WALL_SWAP, COTO_WALL_CPU,
                                            COTO_WALL_PIDS, COTO_WALL_CPU_TIME, COTO_WALL_IOPS};
    struct coto_cgroup_host host = {0};

    if (geteuid() == 0)
        coto_cgroup_find(&host);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (host.version)
            coto_wall_say(&probe->walls[limits[i]], true, host.version == 2 ? "cgroup v2" : "cgroup v1", "");
        else
            none(probe, limits[i], geteuid() ? "a runtime without root has no cgroup" : host.why,
                 "run as root");
    }
}

/* What a run with the level's own choice would have. */
int oci_probe(struct coto_probe *ret_probe, struct coto_err *err)
{
    const struct coto_plan plan = {.isolation = COTO_ISOLATION_CONTAINER};
    const coto_wallset always =
        COTO_WALL_BIT(PIDNS) | COTO_WALL_BIT(MOUNTNS) | COTO_WALL_BIT(NETNS) | COTO_WALL_BIT(IPCNS) |
        COTO_WALL_BIT(UTSNS) | COTO_WALL_BIT(CGROUPNS) | COTO_WALL_BIT(UID) | COTO_WALL_BIT(CAPS) |
        COTO_WALL_BIT(NNP) | COTO_WALL_BIT(SECCOMP) | COTO_WALL_BIT(ROOT_RO) | COTO_WALL_BIT(FDS) |
        COTO_WALL_BIT(TIMEOUT) | COTO_WALL_BIT(OUTPUT) | COTO_WALL_BIT(DISK) | COTO_WALL_BIT(NOFILE) |
        COTO_WALL_BIT(FSIZE);
    struct oci_chosen chosen;
    char text[48];

    *ret_probe = (struct coto_probe){0};
    if (oci_choose(&plan, &chosen, err) ||
        (chosen.runtime->kind == OCI_RUNSC && oci_platform(&chosen, err)))
        return -1;
    bool guest = chosen.runtime->own_kernel;
    snprintf(text, sizeof text, "%s %.30s", chosen.runtime->name, chosen.version);
    all(ret_probe, always, text);
    if (guest) {
        none(ret_probe, COTO_WALL_LANDLOCK, "gVisor's kernel has no Landlock", "use --runtime runc");
        none(ret_probe, COTO_WALL_UNIQUE_UID, "every gVisor kernel runs as the same uid", "use --runtime runc");
        none(ret_probe, COTO_WALL_INODES, "gVisor's tmpfs counts no files", "use --runtime runc");
        coto_wall_say(&ret_probe->walls[COTO_WALL_USERNS], true, text, "");
    } else {
        all(ret_probe, COTO_WALL_BIT(USERNS) | COTO_WALL_BIT(UNIQUE_UID) | COTO_WALL_BIT(INODES), text);
        if (coto_landlock_abi() > 0)
            coto_wall_say(&ret_probe->walls[COTO_WALL_LANDLOCK], true, "ruleset", "");
        else
            none(ret_probe, COTO_WALL_LANDLOCK, "absent from the kernel or its lsm= list",
                 "boot with lsm=landlock,...");
    }
    if (guest)
        none(ret_probe, COTO_WALL_APPARMOR, "gVisor's kernel has no AppArmor", "use --runtime runc");
    else
        coto_apparmor_probe(ret_probe);
    probe_limits(ret_probe);
    if (guest)
        none(ret_probe, COTO_WALL_PIDS, "gVisor counts no processes", "use --runtime runc");
    return 0;
}
