/* The OpenAPI 3.1 document of the service, written from the tables of endpoints and bodies. */
#pragma once

#include "base/json.h"

void coto_openapi_write(struct coto_json *json);
