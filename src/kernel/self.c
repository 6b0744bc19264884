#include "kernel/self.h"

#include "kernel/apparmor.h"
#include "kernel/caps.h"
#include "kernel/cgroup.h"
#include "kernel/idmap.h"
#include "kernel/seccomp.h"
#include "schema/options.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(n) ((uint64_t)1 << (n))

/* Whether groups of sandboxes are made where root may write as its owner. The top of a hierarchy has no bit for that, and one
 * that was delegated is another user's. */
static bool has_groups(void)
{
    struct coto_cgroup_host host = {0};
    struct stat st;

    coto_cgroup_find(&host);
    for (int i = 0; host.version && i < COTO_CG_COUNT; i++)
        if (host.parent[i][0] && (stat(host.parent[i], &st) || st.st_uid != 0 || !(st.st_mode & S_IWUSR)))
            return false;
    return true;
}

uint64_t coto_self_launcher_needs(bool has_high)
{
    uint64_t needs = BIT(CAP_SYS_ADMIN) | BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_CHOWN) |
                     BIT(CAP_KILL) | BIT(CAP_SYS_RESOURCE) | BIT(CAP_SYS_PTRACE) |
                     BIT(CAP_SYS_CHROOT) | BIT(CAP_NET_ADMIN);

    return has_high || !has_groups() ? needs | BIT(CAP_DAC_OVERRIDE) : needs;
}

/* CAP_SETPCAP is for the launcher, which has its bounding set made smaller with it and then has it no more. */
uint64_t coto_self_keeper_needs(void)
{
    return coto_self_launcher_needs(true) | BIT(CAP_SETPCAP);
}

int coto_self_filter(int tier, char ret_hash[COTO_SHA256_HEX], struct coto_err *err)
{
    struct coto_seccomp_program *program = malloc(sizeof *program);
    int failed = !program ? coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "seccomp filter")
                          : coto_seccomp_build(tier, 0, program, err);

    if (!failed) {
        struct sock_fprog prog = {.len = program->len, .filter = program->code};
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
            failed = coto_err_set(err, COTO_ERR_WALL, errno, "seccomp");
        else if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
            failed = coto_err_set(err, COTO_ERR_WALL, 0, "seccomp: the kernel does not confirm it");
        else
            snprintf(ret_hash, COTO_SHA256_HEX, "%s", program->hash);
    }
    free(program);
    return failed;
}

void coto_self_look(struct coto_self *ret_self)
{
    struct coto_self self = {.uid = getuid(),
                             .capabilities = ~0ull,
                             .bounding = ~0ull,
                             .seccomp = (uint64_t)prctl(PR_GET_SECCOMP, 0, 0, 0, 0),
                             .no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
                             .is_dumpable = prctl(PR_GET_DUMPABLE) != 0};
    struct coto_caps caps;

    if (coto_caps_read(&caps, NULL) == 0) {
        self.capabilities = caps.effective | caps.permitted | caps.inheritable | caps.ambient;
        self.bounding = caps.bounding;
    }
    *ret_self = self;
}

/* What the parent had loaded is in force here: a call that does nothing fails otherwise without it. */
static bool is_inherited(const char *hash)
{
    return hash && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER &&
           syscall(SYS_request_key, NULL, NULL, NULL, 0) < 0 && errno == EPERM;
}

/* Root that can do what root does. One without these two maps ids by newuidmap, as ordinary users do who have ids of their own. */
static bool is_root(void)
{
    const uint64_t both = BIT(CAP_SETUID) | BIT(CAP_SETGID);
    struct coto_caps caps;

    return geteuid() == 0 && coto_caps_read(&caps, NULL) == 0 && (caps.effective & both) == both;
}

/* Not under a profile: with no_new_privs nothing that is started, a runtime or a program in a sandbox, could be
 * given another one. Without it the filter takes CAP_SYS_ADMIN, which a container may not have. */
static int take_filter(const char *inherited, char ret_hash[COTO_SHA256_HEX], struct coto_err *err)
{
    bool is_confined = coto_apparmor_is_confined();
    struct coto_caps caps;

    if (!is_confined && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return coto_err_set(err, COTO_ERR_WALL, errno, "no_new_privs");
    if (is_inherited(inherited)) {
        snprintf(ret_hash, COTO_SHA256_HEX, "%s", inherited);
        return 0;
    }
    if (is_confined && (coto_caps_read(&caps, err) || !(caps.effective & BIT(CAP_SYS_ADMIN))))
        return 0;
    return coto_self_filter(COTO_SECCOMP_SERVICE, ret_hash, err);
}

int coto_self_confine(uint64_t needs, const char *inherited, struct coto_self *ret_self,
                      struct coto_err *err)
{
    char hash[COTO_SHA256_HEX] = "";
    bool has_rights = is_root();

    if ((has_rights || !coto_idmap_has_helpers()) && take_filter(inherited, hash, err))
        return -1;
    if (has_rights && coto_caps_shed(needs, err))
        return -1;
    coto_self_look(ret_self);
    memcpy(ret_self->filter_hash, hash, sizeof hash);
    return 0;
}
