#include "lib/job.h"

#include "base/fd.h"
#include "report/reportfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_prompt(struct coto_job *job, struct coto_err *err)
{
    const char *path = coto_policy_str(&job->policy, COTO_OPT_PROMPT_FILE);

    if (!*path)
        return 0;
    coto_auto_fd fd = -1;
    if (coto_policy_open_input("--prompt-file:", path, &fd, err) == 0) {
        if (coto_fd_read_all(fd, COTO_JOB_TEXT_MAX, &job->prompt) == 0)
            return 0;
        coto_err_set(err, COTO_ERR_INPUT, errno, "--prompt-file: '%s'", path);
    }
    return coto_err_remedy(err, "name a readable file or a pipe, or pass --prompt-hash SHA256");
}

int coto_job_plan(struct coto_job *job, struct coto_err *err)
{
    if (coto_policy_check(&job->policy, err) || read_prompt(job, err))
        return -1;
    return coto_plan_make(&job->policy, &job->code, &job->plan, err);
}

int coto_job_open_artifacts(const struct coto_job *job, int *ret_fd, struct coto_err *err)
{
    const char *dir = coto_policy_str(&job->policy, COTO_OPT_ARTIFACTS);

    if (!*dir)
        return 0;
    if (mkdir(dir, 0755) && errno != EEXIST) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "--artifacts: make '%s'", dir);
        return coto_err_remedy(err, "name a directory whose parent exists and you may write to");
    }
    *ret_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (*ret_fd < 0 && errno == ENOTDIR) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "--artifacts: '%s'", dir);
        return coto_err_remedy(err, "name a directory: a file, or a link that somebody may have put there, is not taken for one");
    }
    if (*ret_fd < 0) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "--artifacts: '%s'", dir);
        return coto_err_remedy(err, "name a directory you may write to");
    }
    return 0;
}

static int report_include(const struct coto_job *job, unsigned *ret_include, struct coto_err *err)
{
    return coto_report_parse_include(coto_policy_list(&job->policy, COTO_OPT_REPORT_INCLUDE),
                                     ret_include, err);
}

static int open_report(struct coto_job *job, struct coto_err *err)
{
    const char *dir = coto_policy_str(&job->policy, COTO_OPT_REPORT);

    if (!*dir)
        return 0;
    if (coto_report_open(dir, &job->report_fd, err))
        return -1;
    job->has_report = true;
    return 0;
}

int coto_job_run(struct coto_job *job, struct coto_io *io, struct coto_err *err)
{
    coto_auto_fd artifacts = -1;
    unsigned include = 0;

    if (coto_job_open_artifacts(job, &artifacts, err) || report_include(job, &include, err) ||
        open_report(job, err))
        return -1;
    job->plan.want_artifacts = job->plan.want_artifacts || artifacts >= 0;
    io->artifacts_fd = artifacts;
    io->capture = io->capture || (include & COTO_REPORT_OUTPUT);
    io->capture_max = COTO_JOB_KEEP;
    int failed = coto_core_run(&job->plan, io, &job->result, err);
    io->artifacts_fd = -1;
    return failed;
}

int coto_job_write_report(const struct coto_job *job, struct coto_err *err)
{
    const char *hash = coto_policy_str(&job->policy, COTO_OPT_PROMPT_HASH);
    const struct coto_plan_file *code = job->plan.file_count ? &job->plan.files[0] : NULL;
    struct coto_report_extra extra = {
        .prompt_hash = *hash ? hash : NULL,
        .prompt = job->prompt.data,
        .prompt_len = job->prompt.len,
        .code = code ? code->data : NULL,
        .code_len = code ? code->len : 0,
    };

    if (!job->has_report)
        return 0;
    if (report_include(job, &extra.include, err))
        return -1;
    return coto_report_write(job->report_fd, &job->result, &job->plan, &extra, err);
}

void coto_job_fini(struct coto_job *job)
{
    coto_result_fini(&job->result);
    coto_plan_fini(&job->plan);
    coto_policy_fini(&job->policy);
    coto_buf_fini(&job->prompt);
    if (job->has_report)
        close(job->report_fd);
    job->has_report = false;
}
