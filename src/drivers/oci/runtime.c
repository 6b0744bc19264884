/* Which runtime, and whether it may be used (drivers/floor.h). Distributions mend old versions, so
 * where the program belongs to a Debian package the package's version is judged. */
#include "drivers/oci/oci.h"

#include "base/fd.h"
#include "drivers/floor.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct oci_runtime runtimes[] = {
    {OCI_RUNC, "runc", "runc", false},
    {OCI_CRUN, "crun", "crun", false},
    {OCI_RUNSC, "runsc", "runsc", true},
    {OCI_KATA, "kata-runtime", NULL, true},
};
#define RUNTIMES (sizeof runtimes / sizeof runtimes[0])

/* ---- finding ---- */

/* Not the caller's PATH: what runs here may run as root. */
static bool find_program(const char *name, char ret_path[PATH_MAX])
{
    static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                       "/usr/bin", "/opt/kata/bin"};

    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        snprintf(ret_path, PATH_MAX, "%s/%s", dirs[i], name);
        if (access(ret_path, X_OK) == 0)
            return true;
    }
    return false;
}

static bool file_has_line(const char *file, const char *line)
{
    coto_auto_buf text = {0};
    coto_auto_fd fd = open(file, O_RDONLY | O_CLOEXEC);
    size_t n = strlen(line);

    if (fd < 0 || coto_fd_read_all(fd, 1 << 20, &text))
        return false;
    for (const char *p = text.data; p && (p = strstr(p, line)); p += n)
        if ((p == text.data || p[-1] == '\n') && (p[n] == '\n' || !p[n]))
            return true;
    return false;
}

/* Version of a package as dpkg has it; false: not installed, or no Debian. */
static bool package_version(const char *package, char ret_version[96])
{
    coto_auto_buf text = {0};
    coto_auto_fd fd = open("/var/lib/dpkg/status", O_RDONLY | O_CLOEXEC);
    char head[80];

    if (fd < 0 || coto_fd_read_all(fd, 64 << 20, &text))
        return false;
    snprintf(head, sizeof head, "Package: %s\n", package);
    for (char *p = text.data; p && (p = strstr(p, head)); p++) {
        if (p != text.data && p[-1] != '\n')
            continue;
        char *end = strstr(p, "\n\n");
        if (end)
            *end = '\0';
        char *version = strstr(p, "\nVersion: ");
        if (version && strstr(p, "\nStatus: install ok installed"))
            return sscanf(version, "\nVersion: %95s", ret_version) == 1;
        return false;
    }
    return false;
}

/* "runc version 1.3.4", "runsc version release-20240101.0", "kata-runtime  : 3.2.0". */
static int ask_version(struct oci_chosen *chosen, struct coto_err *err)
{
    char *argv[] = {chosen->path, "--version", NULL};
    struct oci_output out;
    const char *p;

    if (oci_command(argv, 10000, &out) || out.status != 0) {
        coto_err_set(err, COTO_ERR_WALL, 0, "%s does not tell its version: %.200s", chosen->path,
                     out.text);
        return coto_err_remedy(err, "install it again: apt-get install %s",
                               chosen->runtime->package ? chosen->runtime->package : "kata-containers");
    }
    p = out.text + strcspn(out.text, "0123456789");
    if (chosen->runtime->kind == OCI_RUNSC && strncmp(p, "0.0~", 4) != 0)
        snprintf(chosen->version, sizeof chosen->version, "0.0~%.*s", (int)strspn(p, "0123456789."), p);
    else
        snprintf(chosen->version, sizeof chosen->version, "%.*s", (int)strcspn(p, " \n"), p);
    snprintf(chosen->judged, sizeof chosen->judged, "upstream version");
    return 0;
}

static int judge(struct oci_chosen *chosen, struct coto_err *err)
{
    const char *package = chosen->runtime->package;
    char list[128];
    char real[PATH_MAX];
    bool is_debian = false;

    snprintf(list, sizeof list, "/var/lib/dpkg/info/%s.list", package ? package : "");
    if (package && realpath(chosen->path, real))
        is_debian = (file_has_line(list, real) || file_has_line(list, chosen->path)) &&
                    package_version(package, chosen->version);
    if (is_debian)
        snprintf(chosen->judged, sizeof chosen->judged, "Debian package");
    else if (ask_version(chosen, err))
        return -1;
    coto_floor_lacks(chosen->runtime->name, chosen->version, is_debian, chosen->lacks);
    return 0;
}

static const struct oci_runtime *row_of(const char *name)
{
    for (size_t i = 0; i < RUNTIMES; i++)
        if (strcmp(runtimes[i].name, name) == 0 ||
            (runtimes[i].kind == OCI_KATA && strcmp(name, "kata") == 0))
            return &runtimes[i];
    return NULL;
}

int oci_check_runtime(const char *name, struct coto_err *err)
{
    if (row_of(name))
        return 0;
    coto_err_set(err, COTO_ERR_POLICY, 0, "runtime '%.64s' is not known", name);
    return coto_err_remedy(err, "use runc, crun, runsc or kata-runtime");
}

int oci_find(const char *name, struct oci_chosen *ret_chosen, struct coto_err *err)
{
    struct oci_chosen chosen = {.runtime = row_of(name)};

    if (oci_check_runtime(name, err))
        return -1;
    if (!find_program(chosen.runtime->name, chosen.path)) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "runtime '%s' is not installed",
                     chosen.runtime->name);
        if (!chosen.runtime->package)
            return coto_err_remedy(err, "install Kata Containers (katacontainers.io), or use "
                                        "--runtime runsc");
        return coto_err_remedy(err, "install it: apt-get install %s", chosen.runtime->package);
    }
    if (judge(&chosen, err))
        return -1;
    *ret_chosen = chosen;
    return 0;
}

/* ---- choosing ---- */

static bool is_named(const struct coto_plan *plan, const struct oci_chosen *chosen)
{
    return coto_floor_is_named(&plan->allow_runtime, chosen->runtime->name, chosen->version);
}

static int refuse(const struct oci_chosen *chosen, struct coto_err *err)
{
    return coto_floor_refuse(chosen->runtime->name, chosen->version, chosen->judged, chosen->lacks,
                             err);
}

/* The first that is installed and has its escapes mended. */
static int choose_any(const struct coto_plan *plan, struct oci_chosen *ret_chosen,
                      struct coto_err *err)
{
    static const char *const names[] = {"runc", "crun", "runsc"};
    struct oci_chosen refused = {0};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct oci_chosen one;
        if (oci_find(names[i], &one, err))
            continue;
        if (!one.lacks[0] || is_named(plan, &one)) {
            *ret_chosen = one;
            return 0;
        }
        if (!refused.runtime)
            refused = one;
    }
    if (refused.runtime)
        return refuse(&refused, err);
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "no container runtime is installed");
    return coto_err_remedy(err, "install one: apt-get install runsc (or runc, crun)");
}

int oci_choose(const struct coto_plan *plan, struct oci_chosen *ret_chosen, struct coto_err *err)
{
    struct oci_chosen chosen;

    if (!plan->runtime)
        return choose_any(plan, ret_chosen, err);
    if (oci_find(plan->runtime, &chosen, err))
        return -1;
    if (chosen.lacks[0] && !is_named(plan, &chosen))
        return refuse(&chosen, err);
    *ret_chosen = chosen;
    return 0;
}
