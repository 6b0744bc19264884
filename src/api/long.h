/* Long texts in the JSON of a body, which are decoded apart from it: by the parser a text of ten megabytes takes a
 * tenth of a second, whether it is wanted or not. The value is the same, and so is what is refused; names that long are
 * left to the parser, but for one where a field's stands: it is refused. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "policy/plan.h"

#include <jansson.h>

struct api_long_text {
    struct coto_buf data;
    size_t at;       /* in `seen` */
    size_t left_out; /* characters of the body that `seen` has fewer from there on */
};

struct api_long {
    struct coto_buf seen; /* what the parser is to see; empty: the body itself */
    struct api_long_text *texts;
    size_t count;
    char name[COTO_ID_TEXT]; /* the texts are called so meanwhile; nobody can know it */
};

/* Zeroed before; call api_long_fini after, whatever is returned. */
int api_long_hide(const char *text, size_t len, struct api_long *ret_all, struct coto_err *err);
/* -1: no memory. `value` is not nested deeper than who asks can recurse. */
int api_long_put_back(const struct api_long *all, json_t *value);
/* Where in the body the parser's error is: its line is the same. */
int api_long_column(const struct api_long *all, int position, int column);
void api_long_fini(struct api_long *all);

/* Behind the quote that ends the text which begins here, or len. */
size_t api_long_end(const char *text, size_t len, size_t at);
