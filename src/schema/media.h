/* Media types by file name extension; one row each in media.c. */
#pragma once

/* The type of "plot.png"; "application/octet-stream" when the extension is
 * unknown or missing. Never NULL; the text is static. The name is only looked
 * at, never opened: what a file says it is, not what it holds. */
const char *coto_media_type(const char *name);
