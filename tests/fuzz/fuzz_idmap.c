/* /etc/subuid and the maps in /proc, which decide as whom a sandbox runs: an id that is chosen lies in
 * a range that the text gives to the caller, as another reader of it finds them, and is never
 * root's. The first byte chooses which text, the next four the sandbox's number. */
#include "kernel/idmap.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLER 1000
#define NAME "alice"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Whole numbers of 32 bits and nothing else; end: what must follow. */
static bool read_number(const char **at, unsigned *ret_value)
{
    char *end;
    unsigned long long value = strtoull(*at, &end, 10);

    if (**at < '0' || **at > '9' || value > UINT32_MAX)
        return false;
    *at = end;
    *ret_value = (unsigned)value;
    return true;
}

static bool is_within(unsigned id, unsigned start, unsigned count)
{
    return id >= start && id - start < count;
}

/* WHO:START:COUNT */
static bool gives_subordinate(const char *line, unsigned id)
{
    size_t who = strcspn(line, ":");
    const char *at = line + who + 1;
    unsigned start, count;

    if (line[who] != ':' || (strncmp(line, NAME ":", who + 1) != 0 && strncmp(line, "1000:", who + 1) != 0))
        return false;
    return read_number(&at, &start) && *at++ == ':' && read_number(&at, &count) &&
           is_within(id, start, count);
}

/* INSIDE OUTSIDE COUNT */
static bool gives_map(const char *at, unsigned id)
{
    unsigned numbers[3];

    for (int i = 0; i < 3; i++) {
        at += strspn(at, " \t");
        if (!read_number(&at, &numbers[i]))
            return false;
    }
    return is_within(id, numbers[0], numbers[2]);
}

static bool is_given(char *text, unsigned id, bool (*gives)(const char *line, unsigned id))
{
    char *rest = NULL;
    bool found = false;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        found = found || gives(line, id);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coto_idmap map = {0};
    unsigned number;

    if (size < 5)
        return 0;
    char *text = strndup((const char *)data + 5, size - 5);
    must(text != NULL);
    memcpy(&number, data + 1, sizeof number);
    number %= 1u << 26; /* as sandbox_number gives them */
    unsigned id = data[0] & 1 ? coto_idmap_pick(text, number, &map)
                              : coto_idmap_subordinate(text, CALLER, NAME, number, &map);
    must(memchr(map.why, 0, sizeof map.why) != NULL);
    must(id != UINT32_MAX); /* nobody: setuid would leave the caller's */
    if (id)
        must(is_given(text, id, data[0] & 1 ? gives_map : gives_subordinate));
    free(text);
    return 0;
}
