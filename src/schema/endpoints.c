#include "schema/endpoints.h"

const struct coto_endpoint coto_endpoints[] = {
#define X(id, method, path, access, doc) {#id, method, path, COTO_ACCESS_##access, doc},
    COTO_ENDPOINTS(X)
#undef X
};
const unsigned coto_endpoint_count = sizeof coto_endpoints / sizeof coto_endpoints[0];
