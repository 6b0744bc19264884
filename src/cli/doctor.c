/* coto doctor: which walls and limits this host can give to this caller, and what
 * to do about the others. Exit 1 when the default policy cannot be met: a core
 * wall of the default level is absent. Absent limits are reported, not fatal,
 * as in a run. */
#include "base/json.h"
#include "base/own.h"
#include "cli/cli.h"
#include "cli/verb.h"
#include "drivers/driver.h"

#include <stdlib.h>

struct finding {
    const struct coto_driver *driver;
    struct coto_probe probe;
    struct coto_err err;
    bool is_usable; /* the probe itself worked */
};

static void examine(const struct coto_driver *driver, struct finding *ret_finding)
{
    ret_finding->driver = driver;
    ret_finding->is_usable = driver->probe(&ret_finding->probe, &ret_finding->err) == 0;
}

static bool meets_default(const struct finding *finding)
{
    if (!finding->is_usable)
        return false;
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (coto_walls[i].class == COTO_WALL_CORE && !finding->probe.walls[i].up)
            return false;
    return true;
}

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static int add_rows(const struct coto_probe *probe, struct coto_strv *cells)
{
    static const char *const header[] = {"WALL", "STATE", "HOW", "MEANING"};
    int failed = 0;

    for (int i = 0; i < 4; i++)
        failed |= coto_strv_add(cells, header[i]);
    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        const struct coto_wall_state *wall = &probe->walls[i];
        failed |= coto_strv_add(cells, coto_walls[i].name);
        failed |= coto_strv_add(cells, wall->up ? "present" : "ABSENT");
        failed |= coto_strv_add(cells, or_dash(wall->mechanism));
        failed |= coto_strv_add(cells, coto_walls[i].doc);
    }
    return failed;
}

/* Why and what to do, below the table: sentences do not fit in columns. */
static void add_absent(const struct coto_probe *probe, struct coto_buf *out)
{
    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        if (probe->walls[i].up)
            continue;
        coto_buf_addf(out, "\n%s: %s\n", coto_walls[i].name,
                      probe->walls[i].note[0] ? probe->walls[i].note : "not available");
        if (probe->remedy[i][0])
            coto_buf_addf(out, "  remedy: %s\n", probe->remedy[i]);
    }
}

static int add_finding(const struct finding *finding, struct coto_buf *out)
{
    coto_auto_strv cells = {0};

    coto_buf_addf(out, "%s: %s\n\n", finding->driver->name, finding->driver->doc);
    if (!finding->is_usable) {
        coto_buf_addf(out, "  unusable: %s\n", finding->err.text);
        if (finding->err.remedy[0])
            coto_buf_addf(out, "  remedy: %s\n", finding->err.remedy);
        coto_buf_addc(out, '\n');
        return 0;
    }
    if (finding->driver->isolation == COTO_ISOLATION_SUBPROCESS) {
        coto_buf_adds(out, "  no isolation; only --isolation subprocess selects it\n\n");
        return 0;
    }
    if (add_rows(&finding->probe, &cells))
        return -1;
    coto_cli_add_table(out, &cells, 4);
    add_absent(&finding->probe, out);
    coto_buf_addc(out, '\n');
    return 0;
}

static int write_text(const struct finding *findings, bool is_met, struct coto_buf *out)
{
    for (size_t i = 0; i < coto_driver_count; i++)
        if (add_finding(&findings[i], out))
            return -1;
    coto_buf_adds(out, is_met ? "The default policy can be met on this host.\n"
                              : "The default policy cannot be met on this host: a core wall is "
                                "absent.\n");
    return out->failed ? -1 : 0;
}

static void add_wall_json(struct coto_json *json, const struct coto_probe *probe, int wall)
{
    const struct coto_wall_state *state = &probe->walls[wall];

    coto_json_begin(json, coto_walls[wall].name, '{');
    coto_json_bool(json, "present", state->up);
    coto_json_bool(json, "core", coto_walls[wall].class == COTO_WALL_CORE);
    coto_json_str(json, "mechanism", state->mechanism[0] ? state->mechanism : NULL);
    coto_json_str(json, "value", state->value[0] ? state->value : NULL);
    coto_json_str(json, "why", !state->up && state->note[0] ? state->note : NULL);
    coto_json_str(json, "remedy", !state->up && probe->remedy[wall][0] ? probe->remedy[wall] : NULL);
    coto_json_end(json, '}');
}

static int write_json(const struct finding *findings, bool is_met, struct coto_buf *out)
{
    struct coto_json json = {.out = out, .pretty = true};

    coto_json_begin(&json, NULL, '{');
    coto_json_int(&json, "schema_version", 1);
    coto_json_bool(&json, "default_policy_met", is_met);
    coto_json_begin(&json, "drivers", '{');
    for (size_t i = 0; i < coto_driver_count; i++) {
        coto_json_begin(&json, findings[i].driver->name, '{');
        coto_json_bool(&json, "usable", findings[i].is_usable);
        coto_json_str(&json, "error", findings[i].is_usable ? NULL : findings[i].err.text);
        coto_json_begin(&json, "walls", '{');
        for (int wall = 0; findings[i].is_usable && wall < COTO_WALL_COUNT; wall++)
            add_wall_json(&json, &findings[i].probe, wall);
        coto_json_end(&json, '}');
        coto_json_end(&json, '}');
    }
    coto_json_end(&json, '}');
    coto_json_end(&json, '}');
    return out->failed ? -1 : 0;
}

/* 0: go on; 1: help was asked for; -1: error. */
static int parse(int argc, char **argv, bool *ret_json, struct coto_err *err)
{
    bool help = false;

    for (int i = 1; i < argc; i++) {
        if (coto_str_eq(argv[i], "--json")) {
            *ret_json = true;
        } else if (coto_str_eq(argv[i], "--help") || coto_str_eq(argv[i], "-h")) {
            help = true;
        } else {
            coto_err_set(err, COTO_ERR_USAGE, 0, "doctor: unexpected argument '%s'", argv[i]);
            return coto_err_remedy(err, "usage: coto doctor [--json]");
        }
    }
    return help;
}

int coto_cli_doctor(int argc, char **argv, char **envp)
{
    struct coto_err err = {0};
    bool json = false;
    int parsed = parse(argc, argv, &json, &err);
    coto_auto_free struct finding *findings = calloc(coto_driver_count, sizeof *findings);
    coto_auto_buf out = {0};
    bool is_met = false;

    (void)envp;
    if (parsed < 0)
        return coto_cli_fail_as(json, &err);
    if (parsed > 0)
        return coto_cli_help_verb("doctor", NULL);
    for (size_t i = 0; findings && i < coto_driver_count; i++) {
        examine(coto_drivers[i], &findings[i]);
        if (coto_drivers[i]->isolation == COTO_ISOLATION_PROCESS)
            is_met = meets_default(&findings[i]);
    }
    if (!findings || (json ? write_json : write_text)(findings, is_met, &out)) {
        coto_err_set(&err, COTO_ERR_LIMIT, 0, "doctor: out of memory");
        return coto_cli_fail_as(json, &err);
    }
    int status = coto_cli_print(&out);
    return status ? status : !is_met;
}
