/* Addresses that one service cannot have both, told without having either. */
#pragma once

#include <stdbool.h>

/* Both as in `listen`, "127.0.0.1:80" or "unix:/path", and good for that. A port of 0 is any free one. */
bool coto_clash(const char *a, const char *b);
