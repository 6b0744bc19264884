/* What no single value can tell: contradictions, and what this build cannot do.
 * Nothing that was asked for is ignored; it is done or it is refused here. */
#include "policy/value.h"
#include "schema/walls.h"

#include <stdio.h>
#include <string.h>

static int unavailable(const struct coto_policy *policy, enum coto_opt opt, const char *remedy,
                       struct coto_err *err)
{
    coto_auto_buf text = {0};

    coto_policy_value_text(policy, opt, &text);
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                 "%s '%.100s' (set by %s): not available at this level yet",
                 coto_options[opt].name, coto_buf_str(&text), policy->v[opt].origin);
    return coto_err_remedy(err, "%s", remedy);
}

static bool is_chosen(const struct coto_policy *policy, enum coto_opt opt)
{
    return policy->v[opt].source > COTO_SOURCE_PROFILE;
}

static int not_at_level(const struct coto_policy *policy, enum coto_opt opt, const char *why,
                        const char *remedy, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "%s (set by %s): isolation %s %s",
                 coto_options[opt].name, policy->v[opt].origin,
                 coto_opt_choice_name(COTO_OPT_ISOLATION,
                                      coto_policy_num(policy, COTO_OPT_ISOLATION)),
                 why);
    return coto_err_remedy(err, "%s", remedy);
}

static int check_one_root(const struct coto_policy *policy, struct coto_err *err)
{
    if (*coto_policy_str(policy, COTO_OPT_ROOTFS) && is_chosen(policy, COTO_OPT_IMAGE)) {
        coto_err_set(err, COTO_ERR_POLICY, 0,
                     "rootfs (set by %s) and image (set by %s): a sandbox has one root",
                     policy->v[COTO_OPT_ROOTFS].origin, policy->v[COTO_OPT_IMAGE].origin);
        return coto_err_remedy(err, "give one of the two");
    }
    return 0;
}

/* A profile may name an image for the container levels, which need one; here the host's
 * programs are the root file system unless somebody names an image. */
static int check_process(const struct coto_policy *policy, struct coto_err *err)
{
    if (*coto_policy_str(policy, COTO_OPT_RUNTIME))
        return not_at_level(policy, COTO_OPT_RUNTIME, "has no container runtime",
                            "use --isolation container or docker", err);
    if (coto_policy_num(policy, COTO_OPT_ISOLATION) != COTO_ISOLATION_SUBPROCESS)
        return check_one_root(policy, err);
    if (is_chosen(policy, COTO_OPT_IMAGE))
        return not_at_level(policy, COTO_OPT_IMAGE, "has no images",
                            "use --isolation process, container or docker", err);
    return 0;
}

static int check_docker(const struct coto_policy *policy, struct coto_err *err)
{
    if (*coto_policy_str(policy, COTO_OPT_ROOTFS))
        return not_at_level(policy, COTO_OPT_ROOTFS, "takes its root file system from an image",
                            "name one with --image, or use --isolation container", err);
    if (coto_policy_list(policy, COTO_OPT_MOUNT)->count)
        return not_at_level(policy, COTO_OPT_MOUNT,
                            "mounts nothing of the host: the engine would look the path up again",
                            "bring files in with --copy, or use --isolation container", err);
    if (*coto_policy_str(policy, COTO_OPT_IMAGE_KEY))
        return not_at_level(policy, COTO_OPT_IMAGE_KEY,
                            "runs an image that the engine keeps, whose signature coto cannot see",
                            "import it with 'coto image import' and use --isolation container, or "
                            "pin its digest with --image NAME@sha256:...",
                            err);
    if (coto_policy_num(policy, COTO_OPT_PTYS) > 0)
        return not_at_level(policy, COTO_OPT_PTYS, "has no terminals: engines do not limit them",
                            "leave ptys out, or use --isolation process or container", err);
    if (coto_policy_num(policy, COTO_OPT_IDMAP) != COTO_IDMAP_AUTO)
        return not_at_level(policy, COTO_OPT_IDMAP, "maps ids as the engine is set up to",
                            "leave idmap out; the engine has userns-remap", err);
    return 0;
}

static int check_level(const struct coto_policy *policy, struct coto_err *err)
{
    switch (coto_policy_num(policy, COTO_OPT_ISOLATION)) {
    case COTO_ISOLATION_CONTAINER:
        return check_one_root(policy, err);
    case COTO_ISOLATION_DOCKER:
        return check_docker(policy, err);
    default:
        return check_process(policy, err);
    }
}

static int check_available(const struct coto_policy *policy, struct coto_err *err)
{
    if (coto_policy_num(policy, COTO_OPT_ISOLATION) == COTO_ISOLATION_VM)
        return unavailable(policy, COTO_OPT_ISOLATION,
                           "use --isolation process: namespaces and every kernel wall", err);
    if (coto_policy_num(policy, COTO_OPT_NETWORK) == COTO_NETWORK_ALLOW)
        return unavailable(policy, COTO_OPT_NETWORK,
                           "use --network none: a sandbox has no network", err);
    if (coto_policy_list(policy, COTO_OPT_NETWORK_ALLOW)->count > 0)
        return unavailable(policy, COTO_OPT_NETWORK_ALLOW,
                           "leave network-allow out: a sandbox has no network", err);
    return 0;
}

static int contradiction(const struct coto_policy *policy, enum coto_opt a, enum coto_opt b,
                         const char *why, struct coto_err *err)
{
    return coto_err_set(err, COTO_ERR_POLICY, 0, "%s (set by %s) and %s (set by %s): %s",
                        coto_options[a].name, policy->v[a].origin, coto_options[b].name,
                        policy->v[b].origin, why);
}

static bool has_item(const struct coto_strv *list, const char *item)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

static int check_walls(const struct coto_policy *policy, struct coto_err *err)
{
    const struct coto_strv *require = coto_policy_list(policy, COTO_OPT_REQUIRE);
    const struct coto_strv *allow = coto_policy_list(policy, COTO_OPT_ALLOW_MISSING);

    for (size_t i = 0; i < allow->count; i++) {
        if (!has_item(require, "all") && !has_item(require, allow->items[i]))
            continue;
        char why[96];
        snprintf(why, sizeof why, "'%s' cannot be both required and allowed to be missing",
                 allow->items[i]);
        contradiction(policy, COTO_OPT_REQUIRE, COTO_OPT_ALLOW_MISSING, why, err);
        return coto_err_remedy(err, "take it out of one of the two");
    }
    return 0;
}

static int check_report(const struct coto_policy *policy, struct coto_err *err)
{
    bool has_file = *coto_policy_str(policy, COTO_OPT_PROMPT_FILE);

    if (has_file && *coto_policy_str(policy, COTO_OPT_PROMPT_HASH)) {
        contradiction(policy, COTO_OPT_PROMPT_HASH, COTO_OPT_PROMPT_FILE,
                      "the prompt can have one hash only", err);
        return coto_err_remedy(err, "give one of the two");
    }
    if (!has_file && has_item(coto_policy_list(policy, COTO_OPT_REPORT_INCLUDE), "prompt")) {
        coto_err_set(err, COTO_ERR_POLICY, 0,
                     "report-include (set by %s): 'prompt' needs the prompt itself",
                     policy->v[COTO_OPT_REPORT_INCLUDE].origin);
        return coto_err_remedy(err, "give it with --prompt-file");
    }
    return 0;
}

/* Whether path is place or below it. */
static bool is_within(const char *path, const char *place, size_t place_len)
{
    return strncmp(path, place, place_len) == 0 &&
           (path[place_len] == '/' || path[place_len] == '\0');
}

static int check_places(const struct coto_policy *policy, struct coto_err *err)
{
    const char *workdir = coto_policy_str(policy, COTO_OPT_WORKDIR);
    const struct coto_strv *tmpfs = coto_policy_list(policy, COTO_OPT_TMPFS);

    if (strcmp(workdir, "/tmp") == 0) {
        coto_err_set(err, COTO_ERR_POLICY, 0,
                     "workdir '/tmp' (set by %s): /tmp is a file system of its own",
                     policy->v[COTO_OPT_WORKDIR].origin);
        return coto_err_remedy(err, "choose another place, for example /workspace");
    }
    for (size_t i = 0; i < tmpfs->count; i++) {
        if (!is_within(workdir, tmpfs->items[i], strcspn(tmpfs->items[i], ":")))
            continue;
        contradiction(policy, COTO_OPT_TMPFS, COTO_OPT_WORKDIR,
                      "the extra directory would hide the workspace", err);
        return coto_err_remedy(err, "the workspace is private and writable already");
    }
    return 0;
}

int coto_policy_check(const struct coto_policy *policy, struct coto_err *err)
{
    if (check_available(policy, err) || check_level(policy, err) || check_walls(policy, err) || check_report(policy, err) ||
        check_places(policy, err))
        return -1;
    return 0;
}
