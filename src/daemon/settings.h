/* Values of the settings: defaults, then the configuration file, then flags. The front gets
 * them as the keeper has read them. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "schema/settings.h"

#include <stdbool.h>
#include <stdint.h>

#define COTO_SETTINGS_FILE "/etc/coto/serve.yaml"
#define COTO_SETTING_NONE (-1) /* of an INT that was set to none */

struct coto_settings {
    int64_t num[COTO_SET_COUNT];
    struct coto_strv text[COTO_SET_COUNT]; /* TEXT: one item; LIST: any number */
    bool by_flag[COTO_SET_COUNT];          /* the file does not change it */
    bool by_file[COTO_SET_COUNT];          /* neither: it is the default */
    char file[4096];                       /* "": none is read */
};

/* What the command line asks for beside values. */
struct coto_serve_args {
    bool check, help;
};

int coto_settings_init(struct coto_settings *settings, struct coto_err *err);
void coto_settings_fini(struct coto_settings *settings);
/* Flags and the file: --config FILE, or COTO_SETTINGS_FILE when it exists. */
int coto_settings_load(struct coto_settings *settings, int argc, char **argv,
                       struct coto_serve_args *ret_args, struct coto_err *err);
/* What the file says, as pairs (policy/pairs.h). */
int coto_settings_take_pairs(struct coto_settings *settings, const struct coto_buf *pairs,
                             struct coto_err *err);
/* Reads the file again into *ret_new, with the flags of old. */
int coto_settings_reload(const struct coto_settings *old, struct coto_settings *ret_new,
                         struct coto_err *err);
/* "" when it is empty. */
const char *coto_settings_text(const struct coto_settings *settings, enum coto_setting id);
/* What a SIGHUP can change beside numbers: texts and lists of one kind, LIVE or FILE, as pairs, and back. */
void coto_settings_add_texts(const struct coto_settings *settings, enum coto_setting_when when, struct coto_buf *ret_pairs);
int coto_settings_take_texts(struct coto_settings *settings, enum coto_setting_when when, const struct coto_buf *pairs,
                             struct coto_err *err);
/* to gets from's value as well. */
/* Whether there is one of that name. */
bool coto_settings_has(const char *name);
int coto_settings_copy(struct coto_settings *to, const struct coto_settings *from, enum coto_setting id, struct coto_err *err);
/* Each gets the other's value. */
void coto_settings_swap(struct coto_settings *a, struct coto_settings *b, enum coto_setting id);
/* Whether a setting has the same value in both. */
bool coto_settings_same(const struct coto_settings *a, const struct coto_settings *b,
                        enum coto_setting id);
/* What cannot be, taken together: addresses for others without all that protects them. */
int coto_settings_check(const struct coto_settings *settings, struct coto_err *err);
void coto_settings_help(struct coto_buf *out);
