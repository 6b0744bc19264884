#include "schema/settings.h"

const struct coto_setting_info coto_setting_infos[COTO_SET_COUNT] = {
#define X(id, name, type, def, min, max, metavar, when, help)                                      \
    {name, COTO_SETTING_##type, def, min, max, metavar, COTO_SETTING_##when, help},
    COTO_SETTINGS(X)
#undef X
};
