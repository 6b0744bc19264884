/* coto doctor's view of AppArmor, for the drivers whose programs run on this kernel. */
#pragma once

#include "drivers/driver.h"

/* Whether the profile of a policy that names none is loaded, and what to do if not. */
void coto_apparmor_probe(struct coto_probe *probe);
