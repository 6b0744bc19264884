#include "core/result.h"

#include <stdlib.h>

void coto_result_fini(struct coto_result *result)
{
    coto_buf_fini(&result->out.data);
    coto_buf_fini(&result->err.data);
    for (size_t i = 0; i < result->artifact_count; i++) {
        coto_buf_fini(&result->artifacts[i].content);
        free(result->artifacts[i].name);
    }
    free(result->artifacts);
    result->artifacts = NULL;
    result->artifact_count = 0;
}
