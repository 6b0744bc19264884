/* What to run: a command as it is, or code that becomes a file in the workspace
 * and one or two stages from its language's row. */
#include "base/fd.h"
#include "base/sha256.h"
#include "base/units.h"
#include "policy/plan_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define CODE_MAX ((size_t)64 * 1024 * 1024)
#define NAME_MAX_KEPT 200
#define ARG_MAX_LEN ((size_t)128 * 1024 - 1)

struct job {
    const struct coto_source_code *code;
    const struct coto_language *language; /* NULL: an ELF file */
    struct coto_plan_names names;
};

/* ---- placeholders ---- */

const char *coto_plan_scratch(const struct coto_plan *plan)
{
    /* A level without a /tmp of its own must not litter the host's. */
    if (plan->writable_output_only && plan->isolation != COTO_ISOLATION_SUBPROCESS)
        return "/tmp";
    return plan->workdir;
}

int coto_plan_expand(const char *text, const struct coto_plan_names *names, struct coto_buf *out)
{
    const struct {
        const char *key;
        const char *value;
    } keys[] = {{"{src}", names->src},
                {"{out}", names->out},
                {"{dir}", names->dir},
                {"{scratch}", names->scratch}};

    if (strstr(text, "{memory}") && names->memory == COTO_UNIT_NONE)
        return 1;
    while (*text) {
        size_t i = 0;
        while (i < sizeof keys / sizeof keys[0] &&
               !(keys[i].value && coto_str_has_prefix(text, keys[i].key)))
            i++;
        if (i < sizeof keys / sizeof keys[0]) {
            coto_buf_adds(out, keys[i].value);
            text += strlen(keys[i].key);
        } else if (coto_str_has_prefix(text, "{memory}")) {
            coto_buf_addf(out, "%lld", (long long)names->memory);
            text += strlen("{memory}");
        } else {
            coto_buf_addc(out, *text++);
        }
    }
    return 0;
}

/* ---- stages ---- */

static struct coto_plan_stage *stage_new(struct coto_plan *plan, const char *name)
{
    struct coto_plan_stage *stage = &plan->stages[plan->stage_count++];

    stage->name = name;
    return stage;
}

static int stage_add_args(struct coto_plan_stage *stage, const char *const *argv,
                          struct coto_err *err)
{
    for (; argv && *argv; argv++) {
        if (strlen(*argv) > ARG_MAX_LEN) {
            coto_err_set(err, COTO_ERR_USAGE, 0, "arguments: one is over 128 KiB");
            return coto_err_remedy(err, "pass large data on standard input or as a file");
        }
        if (coto_strv_add(&stage->argv, *argv))
            return coto_plan_no_memory(err);
    }
    return 0;
}

static int stage_expand(struct coto_plan_stage *stage, const char *const *list,
                        const struct coto_plan_names *names, struct coto_err *err)
{
    for (; *list; list++) {
        coto_auto_buf item = {0};
        if (coto_plan_expand(*list, names, &item))
            continue;
        if (item.failed || coto_strv_add(&stage->argv, coto_buf_str(&item)))
            return coto_plan_no_memory(err);
    }
    return 0;
}

static int add_command(const char *const *argv, struct coto_plan *plan, struct coto_err *err)
{
    if (!argv || !argv[0] || !argv[0][0]) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "command: its name is empty");
        return coto_err_remedy(err, "say what to run: coto run -- COMMAND ARGUMENTS");
    }
    return stage_add_args(stage_new(plan, "run"), argv, err);
}

static int add_stages(const struct job *job, struct coto_plan *plan, struct coto_err *err)
{
    const struct coto_language *language = job->language;
    static const char *const direct[] = {"{src}", NULL};

    if (language && language->build[0] &&
        stage_expand(stage_new(plan, "build"), language->build, &job->names, err))
        return -1;
    struct coto_plan_stage *run = stage_new(plan, "run");
    if (stage_expand(run, language ? language->run : direct, &job->names, err))
        return -1;
    return stage_add_args(run, job->code->argv, err);
}

/* ---- reading ---- */

static const char *kind_word(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static int not_a_file(const char *path, mode_t mode, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "'%s': it is %s, not a file with code", path,
                 kind_word(mode));
    if (S_ISDIR(mode))
        return coto_err_remedy(err, "name a file in it, and bring the rest with --copy '%s:.'",
                               path);
    return coto_err_remedy(err, "give the code on standard input: coto run --lang LANGUAGE -");
}

static int read_code(const char *path, struct coto_buf *ret_data, struct coto_err *err)
{
    struct stat st;
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 && (errno == ENXIO || errno == ENODEV))
        return not_a_file(path, S_IFSOCK, err);
    if (fd < 0) {
        int saved = errno;
        coto_err_set(err, COTO_ERR_INPUT, saved, "'%s'", path);
        return saved == ENOENT
                   ? coto_err_remedy(err, "check the path; a command of the sandbox is run with: "
                                          "coto run -- COMMAND")
                   : -1;
    }
    if (fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", path);
    if (!S_ISREG(st.st_mode))
        return not_a_file(path, st.st_mode, err);
    if (st.st_size > (off_t)CODE_MAX)
        errno = EFBIG;
    else if (coto_fd_read_all(fd, CODE_MAX, ret_data) == 0)
        return 0;
    if (errno != EFBIG)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", path);
    coto_err_set(err, COTO_ERR_INPUT, 0, "'%s': code may be 64 MiB at most", path);
    return coto_err_remedy(err, "bring large data with --copy or --mount");
}

/* ---- language and name ---- */

static void list_languages(struct coto_buf *out)
{
    for (size_t i = 0; i < coto_language_count; i++)
        coto_buf_addf(out, "%s%s", i ? ", " : "", coto_languages[i].name);
}

int coto_plan_refuse_language(const char *asked, const char *file, struct coto_err *err)
{
    coto_auto_buf names = {0};

    list_languages(&names);
    if (*asked) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--lang: '%s' is not a known language", asked);
        return coto_err_remedy(err, "choose among: %s", coto_buf_str(&names));
    }
    if (file)
        coto_err_set(err, COTO_ERR_USAGE, 0,
                     "'%s': neither its extension nor its first line tells the language", file);
    else
        coto_err_set(err, COTO_ERR_USAGE, 0, "code: its first line does not tell the language");
    return coto_err_remedy(err, "name it with --lang, before FILE or -; one of: %s",
                           coto_buf_str(&names));
}

static int find_language(const struct coto_policy *policy, struct job *job,
                         const struct coto_plan_file *file, struct coto_err *err)
{
    const char *asked = coto_policy_str(policy, COTO_OPT_LANG);
    int is_elf = 0;

    if (*asked)
        job->language = coto_language_find(asked);
    else
        job->language = coto_language_detect(job->code->file, file->data ? file->data : "",
                                             file->len, &is_elf);
    if (!job->language && !is_elf)
        return coto_plan_refuse_language(asked, job->code->file, err);
    return 0;
}

/* A host file's own name, made harmless: whole UTF-8, no control characters,
 * not over-long, never "." or "..". */
static void add_safe_name(struct coto_buf *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    const unsigned char *p = (const unsigned char *)(slash ? slash + 1 : path);
    size_t len = strlen((const char *)p);
    size_t start = out->len;

    /* The end is what counts: it holds the extension. */
    size_t i = len > NAME_MAX_KEPT ? len - NAME_MAX_KEPT : 0;
    while (i < len) {
        size_t n = coto_utf8_len(p + i, len - i);
        if (n == 0 || p[i] < 0x20 || p[i] == 0x7f) {
            coto_buf_addc(out, '_');
            i++;
        } else {
            coto_buf_add(out, p + i, n);
            i += n;
        }
    }
    const char *made = coto_buf_str(out) + start;
    if (!*made || !strcmp(made, ".") || !strcmp(made, ".."))
        coto_buf_adds(out, "_program");
}

static int set_target(const struct job *job, struct coto_plan *plan, struct coto_plan_file *file,
                      struct coto_err *err)
{
    const struct coto_language *language = job->language;
    const char *path = job->code->file;
    coto_auto_buf target = {0};

    coto_buf_addf(&target, "%s/", plan->workdir);
    if (path && language && language->by_extension &&
        !coto_language_has_extension(language, path))
        coto_buf_adds(&target, language->file);
    else if (path)
        add_safe_name(&target, path);
    else
        coto_buf_addf(&target, "%s%s", job->code->prefix ? job->code->prefix : "", language ? language->file : "program");
    if (target.failed)
        return coto_plan_no_memory(err);
    file->target = coto_take_ptr(target.data);
    return 0;
}

/* ---- is the tool there? ---- */

bool coto_plan_has_tool(const struct coto_plan *plan, const char *tool)
{
    const char *dir = COTO_PLAN_PATH;

    /* What an image holds is seen once it runs. */
    if (plan->image)
        return true;
    while (*dir) {
        size_t len = strcspn(dir, ":");
        coto_auto_buf path = {0};
        struct stat st;
        coto_buf_add(&path, dir, len);
        coto_buf_addf(&path, "/%s", tool);
        if (path.failed)
            return true;
        /* Links are not followed: below another root they would lead astray. */
        if (plan->rootfs.source ? fstatat(plan->rootfs.fd, path.data + 1, &st, AT_SYMLINK_NOFOLLOW)
                                : lstat(path.data, &st)) {
            dir += len + (dir[len] == ':');
            continue;
        }
        return true;
    }
    return false;
}

static int check_tool(const struct job *job, const struct coto_plan *plan, struct coto_err *err)
{
    const struct coto_language *language = job->language;

    if (plan->noexec && (!language || language->build[0])) {
        coto_err_set(err, COTO_ERR_POLICY, 0,
                     "noexec: %s%s could not be started, because it lies in a writable place",
                     language ? "the program built from " : "a binary",
                     language ? language->name : "");
        return coto_err_remedy(err, "use --no-noexec, or an interpreted language");
    }
    if (!language || coto_plan_has_tool(plan, language->tool))
        return 0;
    coto_err_set(err, COTO_ERR_TOOL, 0, "%s: '%s' is not in the sandbox%s%s", language->name,
                 language->tool, plan->rootfs.source ? "'s root file system " : "",
                 plan->rootfs.source ? plan->rootfs.source : "");
    return coto_err_remedy(err, "install it%s: apt install %s",
                           plan->rootfs.source ? " there" : "", language->package);
}

/* ---- the whole ---- */

static int load(const struct coto_source_code *code, struct coto_plan_file *file,
                struct coto_err *err)
{
    coto_auto_buf data = {0};

    if (code->file) {
        if (read_code(code->file, &data, err))
            return -1;
    } else {
        if (code->text_len > CODE_MAX)
            return coto_err_set(err, COTO_ERR_INPUT, 0, "code: it may be 64 MiB at most");
        coto_buf_add(&data, code->text, code->text_len);
    }
    if (data.failed)
        return coto_plan_no_memory(err);
    file->len = data.len;
    file->data = coto_take_ptr(data.data);
    return 0;
}

int coto_plan_add_code(const struct coto_policy *policy, const struct coto_source_code *code,
                       struct coto_plan *plan, struct coto_err *err)
{
    struct job job = {.code = code};
    coto_auto_buf out = {0};

    const char *asked = coto_policy_str(policy, COTO_OPT_LANG);
    if (code->is_command && *asked && !coto_language_find(asked))
        return coto_plan_refuse_language(asked, NULL, err);
    if (code->is_command)
        return add_command(code->argv, plan, err);
    if (!code->file && !code->text) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "run: neither a file, code nor a command was given");
        return coto_err_remedy(err, "try: coto run FILE, or coto run -- COMMAND");
    }
    plan->files = calloc(1, sizeof *plan->files);
    if (!plan->files)
        return coto_plan_no_memory(err);
    struct coto_plan_file *file = &plan->files[0];
    plan->file_count = 1;
    if (load(code, file, err) || find_language(policy, &job, file, err) ||
        check_tool(&job, plan, err) || set_target(&job, plan, file, err))
        return -1;
    file->mode = job.language ? 0644 : 0755;
    plan->language = job.language;
    coto_sha256_of(file->data ? file->data : "", file->len, plan->code_hash);
    coto_buf_addf(&out, "%s%s.out", coto_plan_scratch(plan), strrchr(file->target, '/'));
    if (out.failed)
        return coto_plan_no_memory(err);
    job.names = (struct coto_plan_names){.src = file->target,
                                         .out = coto_buf_str(&out),
                                         .dir = plan->workdir,
                                         .scratch = coto_plan_scratch(plan),
                                         .memory = plan->memory_bytes};
    return add_stages(&job, plan, err);
}
