#include "cli/cli.h"

#include "base/fd.h"
#include "base/json.h"
#include "report/escape.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* A name has no lines or columns: of the controls not one passes, and of the rest what
 * passes on a terminal. */
void coto_cli_add_visible(struct coto_buf *out, const char *text)
{
    struct coto_escape escape = {0};

    while (*text) {
        size_t n = 0;
        while (text[n] && !is_control(text[n]))
            n++;
        coto_escape_add(&escape, text, n, out);
        coto_escape_end(&escape, out);
        text += n;
        if (*text)
            coto_buf_addf(out, "\\x%02x", (unsigned char)*text++);
    }
}

/* What to do about it, or NULL. Any file may meet the caller's own limit. */
static const char *remedy_of(const struct coto_err *err)
{
    if (err->remedy[0])
        return err->remedy;
    return err->sys_errno == EFBIG ? "raise your own limit on the size of files (ulimit -f)" : NULL;
}

int coto_cli_fail(const struct coto_err *err)
{
    const char *remedy = remedy_of(err);
    coto_auto_buf out = {0};

    coto_buf_adds(&out, "coto: ");
    coto_cli_add_visible(&out, err->text);
    coto_buf_addc(&out, '\n');
    if (remedy) {
        coto_buf_adds(&out, "  remedy: ");
        coto_cli_add_visible(&out, remedy);
        coto_buf_addc(&out, '\n');
    }
    /* Nobody is left to tell when stderr is gone; the status still speaks. */
    (void)coto_fd_write_all(2, coto_buf_str(&out), out.len);
    return coto_err_info(err->kind)->exit_code;
}

int coto_cli_print(const struct coto_buf *text)
{
    struct coto_err err = {0};

    if (!text->failed && coto_fd_write_all(1, coto_buf_str(text), text->len) == 0)
        return 0;
    coto_err_set(&err, COTO_ERR_OUTPUT, text->failed ? ENOMEM : errno, "standard output");
    return coto_cli_fail(&err);
}

static int fail_json(const struct coto_err *err)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};
    const struct coto_err_info *info = coto_err_info(err->kind);

    coto_json_begin(&json, NULL, '{');
    coto_json_begin(&json, "error", '{');
    coto_json_str(&json, "code", info->word);
    coto_json_str(&json, "message", err->text);
    coto_json_str(&json, "remedy", remedy_of(err));
    coto_json_end(&json, '}');
    coto_json_end(&json, '}');
    coto_buf_addc(&out, '\n');
    coto_cli_print(&out);
    return info->exit_code;
}

int coto_cli_fail_as(bool json, const struct coto_err *err)
{
    return json ? fail_json(err) : coto_cli_fail(err);
}

/* Columns a text takes: characters, not bytes. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

#define TABLE_COLUMNS 8

void coto_cli_add_table(struct coto_buf *out, const struct coto_strv *cells, size_t columns)
{
    size_t widths[TABLE_COLUMNS] = {0};

    if (columns == 0 || columns > TABLE_COLUMNS)
        return;
    for (size_t i = 0; i < cells->count; i++) {
        size_t width = width_of(cells->items[i]);
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    for (size_t i = 0; i < cells->count; i++) {
        bool last = i % columns == columns - 1;
        coto_buf_adds(out, cells->items[i]);
        for (size_t pad = width_of(cells->items[i]); !last && pad < widths[i % columns] + 2; pad++)
            coto_buf_addc(out, ' ');
        if (last)
            coto_buf_addc(out, '\n');
    }
}
