/* "Name <mail>", as packages write who looks after them: the name, the mail, and whether it is a
 * group. No package says the last; groups of Debian, Ubuntu and Alpine are known by a word of their
 * name or by a mailing list. */
#include "image/image.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool has_word(const char *text, size_t len, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n <= len; i++)
        if (strncasecmp(text + i, word, n) == 0 &&
            (i == 0 || !isalpha((unsigned char)text[i - 1])) &&
            (i + n == len || !isalpha((unsigned char)text[i + n])))
            return true;
    return false;
}

static bool is_group(const struct image_party *party)
{
    static const char *const words[] = {"team",       "maintainers", "group",   "developers",
                                        "packagers",  "authors",     "project", "task force",
                                        "foundation", "packaging"};
    static const char *const hosts[] = {"lists.", "alioth-lists", "tracker.", "packages."};
    const char *at = memchr(party->mail, '@', party->mail_len);

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (has_word(party->name, party->name_len, words[i]))
            return true;
    for (size_t i = 0; at && i < sizeof hosts / sizeof hosts[0]; i++)
        if (strncasecmp(at + 1, hosts[i], strlen(hosts[i])) == 0)
            return true;
    return false;
}

static void trim(const char **text, size_t *len)
{
    while (*len && strchr(" \t\"", **text))
        (*text)++, (*len)--;
    while (*len && strchr(" \t\"", (*text)[*len - 1]))
        (*len)--;
}

bool image_party_parse(const char *text, struct image_party *ret_party)
{
    const char *open = text ? strrchr(text, '<') : NULL;
    const char *close = open ? strchr(open, '>') : NULL;
    struct image_party party = {.name = text ? text : "", .mail = ""};

    party.name_len = open ? (size_t)(open - text) : strlen(party.name);
    if (close && !close[1 + strspn(close + 1, " \t")]) {
        party.mail = open + 1;
        party.mail_len = (size_t)(close - open - 1);
    } else {
        party.name_len = strlen(party.name);
    }
    trim(&party.name, &party.name_len);
    trim(&party.mail, &party.mail_len);
    if (!memchr(party.mail, '@', party.mail_len) || strcspn(party.mail, " ()") < party.mail_len)
        party.mail_len = 0;
    if (!party.name_len) {
        party.name = party.mail;
        party.name_len = party.mail_len;
        party.mail_len = 0;
    }
    party.is_group = is_group(&party);
    *ret_party = party;
    return party.name_len > 0 && !(party.name_len == 7 && strncmp(party.name, "UNKNOWN", 7) == 0);
}
