#include "schema/media.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *extension;
    const char *type;
} rows[] = {
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"dot", "text/vnd.graphviz"},
    {"eps", "application/postscript"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"gv", "text/vnd.graphviz"},
    {"gz", "application/gzip"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ipynb", "application/x-ipynb+json"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"mmd", "text/vnd.mermaid"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"npy", "application/x-npy"},
    {"npz", "application/x-npz"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ps", "application/postscript"},
    {"py", "text/x-python"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

const char *coto_media_type(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');

    /* ".png" is a hidden file without an extension. */
    if (dot && dot != base) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (!strcasecmp(dot + 1, rows[i].extension))
                return rows[i].type;
    }
    return "application/octet-stream";
}
