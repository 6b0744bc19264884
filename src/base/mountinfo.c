#include "base/mountinfo.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool is_octal(const char *three)
{
    return three[0] >= '0' && three[0] <= '3' && strspn(three, "01234567") >= 3;
}

/* The kernel writes blanks, line ends and backslashes as \ooo. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from;) {
        if (from[0] == '\\' && is_octal(from + 1)) {
            *to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static bool parse_id(const char *text, int *ret)
{
    char *end;
    long id = strtol(text, &end, 10);

    *ret = (int)id;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && id <= INT_MAX;
}

static bool take_apart(char *line, struct coto_mount *ret)
{
    char *fields[6];

    for (int i = 0; i < 6; i++) {
        fields[i] = strsep(&line, " ");
        if (!fields[i] || !*fields[i])
            return false;
    }
    unescape(fields[3]);
    unescape(fields[4]);
    ret->dev = fields[2];
    ret->root = fields[3];
    ret->point = fields[4];
    ret->options = fields[5];
    return parse_id(fields[0], &ret->id);
}

bool coto_mountinfo_next(char **cursor, struct coto_mount *ret)
{
    while (*cursor && **cursor)
        if (take_apart(strsep(cursor, "\n"), ret))
            return true;
    return false;
}

bool coto_mount_is_read_only(const struct coto_mount *mount)
{
    return strncmp(mount->options, "ro", 2) == 0 && (!mount->options[2] || mount->options[2] == ',');
}
