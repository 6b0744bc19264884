#include "policy/value.h"

#include "base/own.h"
#include "base/units.h"
#include "schema/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The kernel takes no argument or variable longer than this (MAX_ARG_STRLEN). */
#define ITEM_MAX ((size_t)131071)
#define LIST_MAX ((size_t)4096)

void coto_value_fini(struct coto_value *value)
{
    free(value->str);
    value->str = NULL;
    coto_strv_fini(&value->list);
}

int coto_value_refuse(const char *who, const char *text, const char *what, const char *allowed,
                      struct coto_err *err)
{
    bool is_long = strlen(text) > 60;

    return coto_err_set(err, COTO_ERR_POLICY, 0, "%s: '%.60s%s' %s; allowed: %s", who, text,
                        is_long ? "..." : "", what, allowed);
}

/* ---- numbers ---- */

static const struct {
    int (*parse)(const char *text, int64_t *ret_value);
    void (*add)(struct coto_buf *out, int64_t value);
    const char *noun;
    const char *example;
} number_types[] = {
    [COTO_TYPE_INT] = {coto_units_parse_int, NULL, "is not a whole number", "64"},
    [COTO_TYPE_SIZE] = {coto_units_parse_size, coto_units_add_size, "is not a size", "256m"},
    [COTO_TYPE_DURATION] = {coto_units_parse_duration, coto_units_add_duration,
                            "is not a duration", "30s"},
    [COTO_TYPE_CPUS] = {coto_units_parse_cpus, coto_units_add_cpus, "is not a number of CPUs",
                        "0.5"},
};

static bool is_number(enum coto_opt_type type)
{
    return type == COTO_TYPE_INT || type == COTO_TYPE_SIZE || type == COTO_TYPE_DURATION ||
           type == COTO_TYPE_CPUS;
}

static void add_number(struct coto_buf *out, enum coto_opt_type type, int64_t value)
{
    if (number_types[type].add)
        number_types[type].add(out, value);
    else if (value == COTO_UNIT_NONE)
        coto_buf_adds(out, "none");
    else
        coto_buf_addf(out, "%" PRId64, value);
}

static void add_words(struct coto_buf *out, const char *metavar)
{
    for (; *metavar; metavar++) {
        if (*metavar == '|')
            coto_buf_adds(out, ", ");
        else
            coto_buf_addc(out, *metavar);
    }
}

void coto_value_allowed(enum coto_opt opt, struct coto_buf *out)
{
    coto_value_allowed_to(opt, coto_options[opt].max, out);
}

void coto_value_allowed_to(enum coto_opt opt, int64_t most, struct coto_buf *out)
{
    const struct coto_opt_row *row = &coto_options[opt];

    if (row->type == COTO_TYPE_BOOL) {
        coto_buf_adds(out, "true, false");
    } else if (row->type == COTO_TYPE_ENUM) {
        add_words(out, row->metavar);
    } else if (is_number(row->type)) {
        add_number(out, row->type, row->min);
        coto_buf_adds(out, " to ");
        add_number(out, row->type, most);
        coto_buf_addf(out, ", for example %s", number_types[row->type].example);
    } else {
        coto_buf_adds(out, row->metavar);
    }
}

static int refuse_value(enum coto_opt opt, const char *text, const char *who, const char *what,
                        struct coto_err *err)
{
    coto_auto_buf allowed = {0};

    coto_value_allowed(opt, &allowed);
    return coto_value_refuse(who, text, what, coto_buf_str(&allowed), err);
}

static int parse_number(enum coto_opt opt, const char *text, const char *who, int64_t *ret_num,
                        struct coto_err *err)
{
    const struct coto_opt_row *row = &coto_options[opt];
    int64_t v;

    if (number_types[row->type].parse(text, &v))
        return refuse_value(opt, text, who, number_types[row->type].noun, err);
    /* COTO_UNIT_NONE is the largest number, so a finite maximum refuses it too. */
    if (v < row->min || v > row->max)
        return refuse_value(opt, text, who, "is out of range", err);
    *ret_num = v;
    return 0;
}

static int parse_word(enum coto_opt opt, const char *text, const char *who, int64_t *ret_num,
                      struct coto_err *err)
{
    if (coto_options[opt].type == COTO_TYPE_BOOL) {
        bool yes = strcmp(text, "true") == 0;
        if (!yes && strcmp(text, "false") != 0)
            return refuse_value(opt, text, who, "is neither true nor false", err);
        *ret_num = yes;
        return 0;
    }
    int choice = coto_opt_choice(opt, text);
    if (choice < 0)
        return refuse_value(opt, text, who, "is not a choice", err);
    *ret_num = choice;
    return 0;
}

/* ---- texts ---- */

static int no_memory(const char *who, struct coto_err *err)
{
    return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "%s", who);
}

/* One line: a newline or escape in a path or name is a mistake or an attack. */
static bool is_one_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static int parse_string(enum coto_opt opt, const char *text, const char *who, char **ret_str,
                        struct coto_err *err)
{
    const struct coto_rule *rule = coto_rule_find(opt);

    if (opt != COTO_OPT_CODE) {
        if (!is_one_line(text))
            return coto_value_refuse(who, text, "holds a control character", "one line of text",
                                     err);
        if (strlen(text) >= 4096)
            return coto_value_refuse(who, text, "is too long", "up to 4095 bytes", err);
    }
    if (rule && !rule->accepts(text, NULL))
        return coto_rule_refuse(rule, who, text, err);
    char *copy = strdup(text);
    if (!copy)
        return no_memory(who, err);
    free(*ret_str);
    *ret_str = copy;
    return 0;
}

/* ---- lists and maps ---- */

static int add_item(struct coto_strv *list, const char *item, const char *who, struct coto_err *err)
{
    if (list->count >= LIST_MAX)
        return coto_value_refuse(who, item, "is one item too many", "up to 4096 items", err);
    if (coto_strv_add(list, item))
        return no_memory(who, err);
    return 0;
}

static int parse_item(enum coto_opt opt, const char *item, const char *who,
                      struct coto_strv *list, struct coto_err *err)
{
    const struct coto_rule *rule = coto_rule_find(opt);
    coto_auto_buf canonical = {0};

    if (!is_one_line(item) || strlen(item) > 2 * 4096)
        return coto_value_refuse(who, item, "holds a control character or is too long",
                                 "one line of text", err);
    if (rule && !rule->accepts(item, &canonical))
        return coto_rule_refuse(rule, who, item, err);
    if (canonical.failed)
        return no_memory(who, err);
    const char *text = rule ? coto_buf_str(&canonical) : item;
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return 0; /* named twice is named */
    return add_item(list, text, who, err);
}

static bool splits_at_commas(enum coto_opt opt)
{
    const char *metavar = coto_options[opt].metavar;
    size_t len = strlen(metavar);

    return len > 4 && strcmp(metavar + len - 4, ",...") == 0;
}

static int parse_list(enum coto_opt opt, const char *text, const char *who, struct coto_strv *list,
                      struct coto_err *err)
{
    if (!*text)
        return 0; /* the empty list */
    if (!splits_at_commas(opt))
        return parse_item(opt, text, who, list, err);
    for (;;) {
        text += strspn(text, " "); /* after a comma, as people write */
        size_t n = strcspn(text, ",");
        size_t len = n;
        while (len > 0 && text[len - 1] == ' ')
            len--;
        coto_auto_free char *item = strndup(text, len);
        if (!item)
            return no_memory(who, err);
        if (len == 0 && !coto_rule_find(opt)) /* a rule has better words */
            return coto_value_refuse(who, text, "is no name: there is nothing between two commas, or after the last", "NAME,NAME", err);
        if (parse_item(opt, item, who, list, err))
            return -1;
        if (!text[n])
            return 0;
        text += n + 1;
    }
}

static size_t key_len(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return text[0] >= '0' && text[0] <= '9' ? 0 : n;
}

static int parse_map(const char *text, const char *who, struct coto_strv *list,
                     struct coto_err *err)
{
    size_t n = key_len(text);

    if (!*text)
        return 0; /* the empty map */
    if (n == 0 || text[n] != '=')
        return coto_value_refuse(who, text, "is not KEY=VALUE",
                                 "a key of letters, digits and _ that begins with no digit, '=' "
                                 "and a value, for example LANG=C.UTF-8",
                                 err);
    if (strlen(text) > ITEM_MAX)
        return coto_value_refuse(who, text, "is too long", "up to 131071 bytes", err);
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->items[i], text, n + 1) == 0) {
            char *copy = strdup(text);
            if (!copy)
                return no_memory(who, err);
            free(list->items[i]);
            list->items[i] = copy;
            return 0;
        }
    }
    return add_item(list, text, who, err);
}

int coto_value_parse(enum coto_opt opt, const char *text, const char *who,
                     struct coto_value *value, struct coto_err *err)
{
    switch (coto_options[opt].type) {
    case COTO_TYPE_BOOL:
    case COTO_TYPE_ENUM:
        return parse_word(opt, text, who, &value->num, err);
    case COTO_TYPE_INT:
    case COTO_TYPE_SIZE:
    case COTO_TYPE_DURATION:
    case COTO_TYPE_CPUS:
        return parse_number(opt, text, who, &value->num, err);
    case COTO_TYPE_STRING:
        return parse_string(opt, text, who, &value->str, err);
    case COTO_TYPE_LIST:
        return parse_list(opt, text, who, &value->list, err);
    case COTO_TYPE_MAP:
        return parse_map(text, who, &value->list, err);
    }
    return coto_err_set(err, COTO_ERR_INTERNAL, 0, "%s: option without a type", who);
}
