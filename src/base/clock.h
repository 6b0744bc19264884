/* Clocks. Limits use the monotonic clock only; the wall clock is for people. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t coto_clock_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

#define COTO_TIME_TEXT 32
/* "2026-11-15T08:30:21.123Z" */
void coto_clock_utc(char ret_text[COTO_TIME_TEXT]);
