/* --copy on its way to a service: files in the JSON of the request. */
#pragma once

#include "base/json.h"
#include "policy/plan.h"

int coto_cli_add_files(struct coto_json *json, const struct coto_policy *policy, struct coto_err *err);
