/* The result of a run, from a service's words to what the closing line is made of. */
#pragma once

#include "report/text.h"

#include <jansson.h>

/* What coto_report_text looks at; every text in it is known here or neutralised. 0, or -1 when it is the
 * result of nothing we know. */
int coto_remote_result(const json_t *object, struct coto_result *ret_result);
