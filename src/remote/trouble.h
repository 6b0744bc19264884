/* Why there was no answer: files that do not fit, hosts that are not there, certificates that are not taken. */
#pragma once

#include "base/err.h"

#include <curl/curl.h>

/* What was given; "" is nothing. */
struct coto_remote_given {
    const char *server;
    const char *ca;
    const char *certificate;
    const char *key;
};

/* curl speaks of certificates and keys, and not of files, and some it reads only once it is connected. */
int coto_remote_check_files(const struct coto_remote_given *given, struct coto_err *err);
/* What curl_easy_perform failed with, and its own words; always -1. */
int coto_remote_explain(const struct coto_remote_given *given, CURL *curl, CURLcode code, const char *why,
                        struct coto_err *err);
