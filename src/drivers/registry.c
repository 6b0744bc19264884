#include "drivers/driver.h"
#include "drivers/guard.h"

extern const struct coto_driver coto_driver_native;
extern const struct coto_driver coto_driver_subprocess;
extern const struct coto_driver coto_driver_oci;
extern const struct coto_driver coto_driver_docker;

const struct coto_driver *const coto_drivers[] = {
    &coto_driver_native,
    &coto_driver_subprocess,
    &coto_driver_oci,
    &coto_driver_docker,
};
const size_t coto_driver_count = sizeof coto_drivers / sizeof coto_drivers[0];

int coto_driver_choose(int isolation, const struct coto_driver **ret_driver, struct coto_err *err)
{
    for (size_t i = 0; i < coto_driver_count; i++) {
        if (coto_drivers[i]->isolation == isolation) {
            *ret_driver = coto_drivers[i];
            if (i > 0) /* what was begun for the default level is not needed */
                coto_drivers[0]->discard();
            return 0;
        }
    }
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "isolation '%s' is not available in this build",
                 coto_opt_choice_name(COTO_OPT_ISOLATION, isolation));
    return coto_err_remedy(err, "use --isolation process");
}

void coto_driver_prepare(void)
{
    coto_drivers[0]->prepare();
}

void coto_driver_discard(void)
{
    coto_drivers[0]->discard();
    coto_guard_reap();
}
