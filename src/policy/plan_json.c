/* A plan for people and programs to read: --dry-run. Values of variables and
 * the bytes of files stay out of it. */
#include "base/units.h"
#include "policy/plan_int.h"
#include "schema/options.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void add_limit(struct coto_json *json, const char *key, int64_t value)
{
    if (value == COTO_UNIT_NONE)
        coto_json_null(json, key);
    else
        coto_json_int(json, key, value);
}

static void add_limits(const struct coto_plan *plan, struct coto_json *json)
{
    coto_json_begin(json, "limits", '{');
    add_limit(json, "timeout_ms", plan->timeout_ms);
    add_limit(json, "cpu_time_ms", plan->cpu_time_ms);
    add_limit(json, "memory_bytes", plan->memory_bytes);
    add_limit(json, "swap_bytes", plan->swap_bytes);
    add_limit(json, "cpus_milli", plan->cpus_milli);
    add_limit(json, "pids", plan->pids);
    add_limit(json, "disk_bytes", plan->disk_bytes);
    add_limit(json, "tmp_bytes", plan->tmp_bytes);
    add_limit(json, "inodes", plan->inodes);
    add_limit(json, "output_bytes", plan->output_bytes);
    coto_json_str(json, "on_output_limit", plan->output_kill ? "kill" : "cut");
    add_limit(json, "nofile", plan->nofile);
    add_limit(json, "ptys", plan->ptys);
    add_limit(json, "fsize_bytes", plan->fsize_bytes);
    add_limit(json, "iops", plan->iops);
    coto_json_end(json, '}');
}

static void add_strings(struct coto_json *json, const char *key, const struct coto_strv *list)
{
    coto_json_begin(json, key, '[');
    for (size_t i = 0; i < list->count; i++)
        coto_json_str(json, NULL, list->items[i]);
    coto_json_end(json, ']');
}

static void add_stages(const struct coto_plan *plan, struct coto_json *json)
{
    coto_json_str(json, "language", plan->language ? plan->language->name : NULL);
    coto_json_begin(json, "stages", '[');
    for (int i = 0; i < plan->stage_count; i++) {
        coto_json_begin(json, NULL, '{');
        coto_json_str(json, "name", plan->stages[i].name);
        add_strings(json, "argv", &plan->stages[i].argv);
        coto_json_end(json, '}');
    }
    coto_json_end(json, ']');
    coto_json_begin(json, "env_keys", '[');
    for (size_t i = 0; i < plan->env.count; i++)
        coto_json_strn(json, NULL, plan->env.items[i], strcspn(plan->env.items[i], "="));
    coto_json_end(json, ']');
}

static void add_path(struct coto_json *json, const struct coto_plan_path *path, bool is_mount)
{
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "source", path->source);
    coto_json_str(json, "target", path->target);
    coto_json_str(json, "type", S_ISDIR(path->mode) ? "directory" : "file");
    if (is_mount)
        coto_json_bool(json, "writable", path->writable);
    coto_json_end(json, '}');
}

static void add_files(const struct coto_plan *plan, struct coto_json *json)
{
    coto_json_begin(json, "files", '[');
    for (size_t i = 0; i < plan->file_count; i++) {
        const struct coto_plan_file *file = &plan->files[i];
        char hash[COTO_SHA256_HEX];
        char mode[8];
        snprintf(mode, sizeof mode, "%04o", file->mode & 07777);
        coto_sha256_of(file->data ? file->data : "", file->len, hash);
        coto_json_begin(json, NULL, '{');
        coto_json_str(json, "target", file->target);
        coto_json_str(json, "mode", mode);
        coto_json_int(json, "bytes", (int64_t)file->len);
        coto_json_str(json, "sha256", hash);
        coto_json_end(json, '}');
    }
    coto_json_end(json, ']');
}

static void add_view(const struct coto_plan *plan, struct coto_json *json)
{
    coto_json_str(json, "rootfs", plan->rootfs.source);
    coto_json_begin(json, "mounts", '[');
    for (size_t i = 0; i < plan->mount_count; i++)
        add_path(json, &plan->mounts[i], true);
    coto_json_end(json, ']');
    coto_json_begin(json, "tmpfs", '[');
    for (size_t i = 0; i < plan->tmpfs_count; i++) {
        coto_json_begin(json, NULL, '{');
        coto_json_str(json, "target", plan->tmpfs[i].target);
        coto_json_int(json, "bytes", plan->tmpfs[i].size);
        coto_json_end(json, '}');
    }
    coto_json_end(json, ']');
    coto_json_begin(json, "copies", '[');
    for (size_t i = 0; i < plan->copy_count; i++)
        add_path(json, &plan->copies[i], false);
    coto_json_end(json, ']');
    add_files(plan, json);
    coto_json_str(json, "workspace_writable", plan->writable_output_only ? "output" : "all");
    coto_json_bool(json, "noexec", plan->noexec);
    coto_json_bool(json, "cold", plan->cold);
    coto_json_bool(json, "artifacts", plan->want_artifacts);
}

static void add_walls(struct coto_json *json, const char *key, coto_wallset set)
{
    coto_json_begin(json, key, '[');
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (set >> i & 1)
            coto_json_str(json, NULL, coto_walls[i].name);
    coto_json_end(json, ']');
}

static void add_caps(struct coto_json *json, uint64_t caps)
{
    coto_json_begin(json, "capabilities", '[');
    for (size_t i = 0; i < COTO_PLAN_CAP_COUNT; i++)
        if (caps >> coto_plan_caps[i].bit & 1)
            coto_json_str(json, NULL, coto_plan_caps[i].name);
    coto_json_end(json, ']');
}

void coto_plan_json(const struct coto_plan *plan, struct coto_json *json)
{
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "execution_id", plan->id);
    coto_json_str(json, "profile", plan->profile);
    coto_json_str(json, "policy_hash", plan->policy_hash);
    coto_json_str(json, "code_hash", *plan->code_hash ? plan->code_hash : NULL);
    add_stages(plan, json);
    coto_json_int(json, "uid", plan->uid);
    coto_json_int(json, "gid", plan->gid);
    coto_json_str(json, "user_name", plan->user_name);
    coto_json_str(json, "hostname", plan->hostname);
    coto_json_str(json, "workdir", plan->workdir);
    coto_json_str(json, "modules", plan->modules);
    add_limits(plan, json);
    add_view(plan, json);
    coto_json_str(json, "isolation", coto_opt_choice_name(COTO_OPT_ISOLATION, plan->isolation));
    coto_json_str(json, "image", plan->image);
    coto_json_str(json, "image_digest", plan->image_digest[0] ? plan->image_digest : NULL);
    coto_json_str(json, "runtime", plan->runtime);
    coto_json_str(json, "seccomp", coto_opt_choice_name(COTO_OPT_SECCOMP, plan->seccomp_tier));
    coto_json_str(json, "apparmor", plan->apparmor);
    coto_json_str(json, "idmap", coto_opt_choice_name(COTO_OPT_IDMAP, plan->idmap));
    add_caps(json, plan->caps);
    add_walls(json, "walls_wanted", plan->want);
    add_walls(json, "walls_needed", plan->need);
    coto_json_end(json, '}');
}
