/* The result object (docs/RESULT.md). Keys are only ever added; a change of
 * meaning raises COTO_RESULT_SCHEMA. */
#pragma once

#include "base/json.h"
#include "core/result.h"

#define COTO_RESULT_SCHEMA 1

/* The whole object. `plan` may be NULL (then what only it knows is null). */
void coto_report_json(const struct coto_result *result, const struct coto_plan *plan,
                      struct coto_json *json);

/* Its parts that a report file shares: "walls": {...} and "missing_walls": [...]. */
void coto_report_json_walls(const struct coto_wall_state walls[COTO_WALL_COUNT],
                            struct coto_json *json);
void coto_report_json_missing(const struct coto_wall_state walls[COTO_WALL_COUNT],
                              struct coto_json *json);
/* "artifacts": [...] and "artifacts_skipped"; with contents where they were kept. */
void coto_report_json_artifact(const struct coto_artifact *artifact, struct coto_json *json);
void coto_report_json_artifacts(const struct coto_result *result, struct coto_json *json);
/* verdict, limit, exit_code, signal, ..., memory_peak_bytes, pids_peak. */
void coto_report_json_outcome(const struct coto_result *result, struct coto_json *json);
