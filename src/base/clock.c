#include "base/clock.h"

#include <stdio.h>

void coto_clock_utc(char ret_text[COTO_TIME_TEXT])
{
    struct timespec ts;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(ret_text, COTO_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ret_text + n, COTO_TIME_TEXT - n, ".%03ldZ", ts.tv_nsec / 1000000);
}
