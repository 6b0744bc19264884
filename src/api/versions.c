/* Which versions of the languages there are: what their tools say of themselves, in a sandbox like everything
 * that runs here. Asked once in a front's life, when somebody first wants to know. */
#include "api/api.h"

#include "schema/verdict.h"

#include <string.h>

#define TEXT_MAX (64 * 1024)
#define LINE_MAX_BYTES 200

/* A line for each: its name, a tab, the first line of what it says. */
static void write_script(const struct coto_plan *plan, struct coto_buf *out)
{
    coto_buf_adds(out, "n='\n'\n");
    for (size_t i = 0; i < coto_language_count; i++)
        if (coto_languages[i].version && coto_plan_has_tool(plan, coto_languages[i].tool))
            coto_buf_addf(out, "v=$(%s 2>&1 </dev/null) && printf '%%s\\t%%s\\n' '%s' \"${v%%%%\"$n\"*}\"\n",
                          coto_languages[i].version, coto_languages[i].name);
    coto_buf_adds(out, "exit 0\n");
}

/* Whatever came of it: a tool that hangs is not waited for again. */
static bool is_answer(const struct api_job *asked)
{
    return asked->has_result && asked->result.out.data.len <= TEXT_MAX &&
           (asked->result.verdict == COTO_VERDICT_OK || asked->result.verdict == COTO_VERDICT_TIMEOUT);
}

static void run_script(const struct api_job *job, const char *level, struct api_job *asked)
{
    coto_auto_buf script = {0};

    write_script(&job->plan, &script);
    asked->body = json_pack("{s:s, s:s, s:s}", "code", coto_buf_str(&script), "language", "sh", "isolation_level", level);
    if (!asked->body || coto_plan_new_id(asked->id, &asked->err) || api_body_policy(asked, NULL) ||
        api_body_code(asked) || api_box_new(asked, &asked->plan, NULL, &asked->box))
        return;
    struct coto_run_in in = {.sandbox = asked->box, .first_proc = 1};
    api_run_plan(asked, &in);
    asked->box->driver->destroy(asked->box, NULL);
}

/* With the lock held. */
static void ask(struct api_job *job, const char *level)
{
    struct api_job asked = {.api = job->api, .in_fd = -1, .cancel_fd = job->cancel_fd, .channel = job->channel,
                            .life = job->life, .plan = {.rootfs = {.fd = -1}}};
    struct coto_buf *versions = &job->api->versions;

    run_script(job, level, &asked);
    if (is_answer(&asked)) {
        coto_buf_add(versions, asked.result.out.data.data, asked.result.out.data.len);
        coto_buf_addc(versions, '\n');
    }
    job->life = asked.life;
    if (asked.has_result)
        coto_result_fini(&asked.result);
    json_decref(asked.body);
    coto_plan_fini(&asked.plan);
    coto_policy_fini(&asked.policy);
    coto_buf_fini(&asked.code);
    coto_buf_fini(&asked.input);
}

static void say_line(struct coto_json *json, const char *text, const char *name)
{
    size_t len = strlen(name);

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        size_t n = strcspn(text, "\n");
        coto_auto_buf line = {0};
        if (n <= len || strncmp(text, name, len) != 0 || text[len] != '\t')
            continue;
        coto_buf_add(&line, text + len + 1, n - len - 1);
        if (line.len && line.len <= LINE_MAX_BYTES && coto_utf8_is_plain(line.data, line.len))
            coto_json_str(json, name, coto_buf_str(&line));
        return;
    }
}

void api_say_versions(struct api_job *job, const char *level, struct coto_json *json)
{
    struct coto_api *api = job->api;

    coto_json_begin(json, "language_versions", '{');
    pthread_mutex_lock(&api->versions_lock);
    if (!api->versions.len)
        ask(job, level);
    for (size_t i = 0; i < coto_language_count; i++)
        say_line(json, coto_buf_str(&api->versions), coto_languages[i].name);
    pthread_mutex_unlock(&api->versions_lock);
    coto_json_end(json, '}');
}
