/* The root file system from an image of `coto image`. A pinned digest and a signature are
 * checked by coto-image, a program of its own: the libraries for that would cost every
 * run more than its sandbox. */
#include "base/fd.h"
#include "policy/helper.h"
#include "policy/images.h"
#include "policy/plan_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_SECONDS 600 /* of CPU; a tree of some GiB is read once per change */

/* A complaint as coto-image prints it: "coto: what: why\n  remedy: what to do\n". */
static void take_complaint(char *text, int status, struct coto_err *err)
{
    static const char mark[] = "\n  remedy: ";
    char *remedy = strstr(text, mark);
    int kind = COTO_ERR_INTERNAL;

    for (int i = 1; i < COTO_ERR_COUNT; i++)
        if (coto_err_info(i)->exit_code == status)
            kind = i;
    if (remedy) {
        *remedy = '\0';
        remedy += sizeof mark - 1;
        remedy[strcspn(remedy, "\n")] = '\0';
    }
    text[strcspn(text, "\n")] = '\0';
    coto_err_set(err, kind, 0, "%.400s", strncmp(text, "coto: ", 6) == 0 ? text + 6 : text);
    if (remedy)
        coto_err_remedy(err, "%.300s", remedy);
}

static int run_check(const char *program, char *const *argv, struct coto_err *err)
{
    coto_auto_buf answer = {0};
    coto_auto_buf complaint = {0};
    char *envp[] = {"PATH=/usr/bin:/bin", NULL};
    coto_auto_fd in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int status = 0;

    if (in < 0 || coto_helper_lift(&in))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "/dev/null");
    struct coto_helper_call call = {program, argv, envp, in, CHECK_SECONDS};
    if (coto_helper_run(&call, &answer, &complaint, &status))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s", program);
    if (status == 0)
        return 0;
    if (WIFEXITED(status) && complaint.len > 0) {
        take_complaint(complaint.data, WEXITSTATUS(status), err);
        return -1;
    }
    return coto_err_set(err, COTO_ERR_INTERNAL, 0, "coto-image ended with %s %d",
                        WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int verify(const struct coto_image *image, const char *key, struct coto_err *err)
{
    char program[4096], places[320], store[4096];
    char ref[COTO_IMAGE_NAME_MAX + COTO_SHA256_HEX + 16];
    const char *end = strstr(image->path, "/sha256/");

    if (coto_helper_find("coto-image", program, sizeof program)) {
        coto_helper_places(places, sizeof places);
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                     "--image: the program coto-image, which checks it, is not installed");
        return coto_err_remedy(err, "install it ('make install') in one of: %s", places);
    }
    snprintf(store, sizeof store, "%.*s", (int)(end - image->path), image->path);
    snprintf(ref, sizeof ref, "%s%ssha256:%s", image->name, *image->name ? "@" : "", image->digest);
    char *argv[] = {"coto-image", "verify",    "--quick", "--images-dir", store, ref,
                    "--key",      (char *)key, NULL};
    if (!*key)
        argv[6] = NULL;
    return run_check(program, argv, err);
}

static bool is_wanted(const struct coto_policy *policy, const struct coto_plan *plan)
{
    if (plan->isolation == COTO_ISOLATION_CONTAINER)
        return true;
    return plan->isolation == COTO_ISOLATION_PROCESS &&
           policy->v[COTO_OPT_IMAGE].source > COTO_SOURCE_PROFILE;
}

/* Nobody asked for an image by name, and the one that the profile names is not here: the
 * level decides what to do without. */
static bool can_do_without(const struct coto_policy *policy, const struct coto_plan *plan,
                           const struct coto_err *err)
{
    return plan->isolation == COTO_ISOLATION_CONTAINER && err->kind == COTO_ERR_INPUT &&
           policy->v[COTO_OPT_IMAGE].source <= COTO_SOURCE_PROFILE;
}

int coto_plan_open_image(const struct coto_policy *policy, struct coto_plan *plan,
                         struct coto_err *err)
{
    const char *text = coto_policy_str(policy, COTO_OPT_IMAGE);
    const char *key = coto_policy_str(policy, COTO_OPT_IMAGE_KEY);
    coto_auto_image image = {.fd = -1};

    if (plan->is_image_elsewhere)
        return -2;
    if (!is_wanted(policy, plan))
        return *key ? coto_err_set(err, COTO_ERR_POLICY, 0,
                                   "image-key (set by %s): no image is used",
                                   policy->v[COTO_OPT_IMAGE_KEY].origin)
                    : -2;
    if (coto_image_open(coto_policy_str(policy, COTO_OPT_IMAGES_DIR), text, &image, err)) {
        if (*key || !can_do_without(policy, plan, err))
            return -1;
        *err = (struct coto_err){0};
        return -2;
    }
    if ((*key || strstr(text, "sha256:")) && verify(&image, key, err))
        return -1;
    coto_auto_fd fd = coto_path_open_beneath(image.fd, "rootfs", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image '%s'", text);
    if (!plan->image && !(plan->image = strdup(text)))
        return coto_plan_no_memory(err);
    memcpy(plan->image_digest, image.digest, sizeof plan->image_digest);
    plan->image_lock = coto_take_fd(&image.lock);
    return coto_take_fd(&fd);
}
