/* Words to the service manager (sd_notify): "READY=1". Nothing happens without one. */
#pragma once

void coto_notify(const char *text);
