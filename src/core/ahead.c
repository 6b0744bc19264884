/* An interpreter that is started before there is code for it.
 *
 * node runs a module that is named by -r to its end before it looks for the program. This one
 * waits: it reads from stdin, which nobody else has touched yet, how many bytes of JSON follow, and
 * the arguments in them. Then it removes the traces of itself, and node goes on as if it had just
 * been started: everything that is the program's (its file, errors, exit, stdin, require) is node's
 * own doing. What differs is process.uptime(). */
#include "core/session.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

#define ARGUMENTS_MAX (192 * 1024)

const char coto_ahead_script[] =
    "'use strict';\n"
    "const fs = require('fs');\n"
    "const take = (size) => {\n"
    "    const bytes = Buffer.alloc(size);\n"
    "    for (let at = 0; at < size;) {\n"
    "        const n = fs.readSync(0, bytes, at, size - at, null);\n"
    "        if (n === 0) process.exit(0);\n"
    "        at += n;\n"
    "    }\n"
    "    return bytes;\n"
    "};\n"
    "const args = JSON.parse(take(take(4).readUInt32LE(0)).toString());\n"
    "process.argv.push(...args);\n"
    "for (const list of [process.execArgv, process._preload_modules])\n"
    "    if (Array.isArray(list)) list.length = 0;\n"
    "const threads = require('worker_threads');\n" /* they would inherit -r */
    "threads.Worker = new Proxy(threads.Worker, { construct: (worker, [file, options], target) =>\n"
    "    Reflect.construct(worker, [file, { execArgv: [], ...options }], target) });\n"
    "require('module').syncBuiltinESMExports();\n"
    "delete require.cache[__filename];\n"
    "try { fs.unlinkSync(__filename); } catch {}\n";

/* They come by its standard input, of which init takes so much ahead; as JSON a byte may be six. */
static bool has_short_arguments(const struct coto_strv *argv)
{
    size_t len = 2;

    for (size_t i = 2; i < argv->count; i++)
        len += 6 * strlen(argv->items[i]) + 3;
    return len <= ARGUMENTS_MAX;
}

bool coto_core_can_start_ahead(const struct coto_plan *plan)
{
    return plan->language && strcmp(plan->language->name, "node") == 0 && plan->stage_count == 1 &&
           plan->stages[0].argv.count >= 2 && has_short_arguments(&plan->stages[0].argv) && !plan->writable_output_only;
}

int coto_ahead_put_script(struct coto_session *s)
{
    const struct coto_plan_file file = {.target = (char *)COTO_AHEAD_FILE,
                                        .mode = 0644,
                                        .data = (char *)coto_ahead_script,
                                        .len = strlen(coto_ahead_script)};

    return coto_put_bytes(s, &file);
}

/* What is on the command line behind the program's file. */
void coto_ahead_release(struct coto_session *s)
{
    const struct coto_strv *argv = &s->plan->stages[0].argv;
    coto_auto_buf args = {0};
    struct coto_json json = {.out = &args};
    unsigned char size[4];

    coto_json_begin(&json, NULL, '[');
    for (size_t i = 2; i < argv->count; i++)
        coto_json_str(&json, NULL, argv->items[i]);
    coto_json_end(&json, ']');
    for (int i = 0; i < 4; i++)
        size[i] = (unsigned char)(args.len >> (8 * i));
    coto_auto_buf whole = {0};
    coto_buf_add(&whole, size, sizeof size);
    coto_buf_add(&whole, args.data, args.len);
    for (size_t at = 0; at < whole.len; at += COTO_FRAME_CHUNK) {
        size_t n = whole.len - at < COTO_FRAME_CHUNK ? whole.len - at : COTO_FRAME_CHUNK;
        size_t frame = coto_frame_begin(&s->out, COTO_FRAME_STDIN, coto_session_proc(s));
        coto_frame_add(&s->out, COTO_TAG_DATA, whole.data + at, n);
        coto_frame_end(&s->out, frame);
    }
    s->in_credit -= (int64_t)whole.len;
    s->started = true;
    /* Its walls were raised, and told, when it was started. */
    snprintf(s->result->filter_hash, sizeof s->result->filter_hash, "%s", s->sandbox->walls[COTO_WALL_SECCOMP].value);
}
