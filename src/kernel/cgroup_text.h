/* What the kernel writes into procfs and cgroupfs about groups, read without a
 * kernel: pure functions of cgroup.c that tests and fuzz targets call too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether a list "cpu,cpuacct" or "cpu io memory" holds a word. */
bool coto_cgroup_text_has(const char *list, const char *word);
/* A file of one number or "max" (COTO_UNIT_NONE); -1 when it is neither. */
int64_t coto_cgroup_text_num(const char *text);
/* The number behind "key " in a flat-keyed file, -1 when absent. */
int64_t coto_cgroup_text_key(const char *text, const char *key);
/* The next "4:memory:/path" of /proc/self/cgroup: names is "" on v2. Lines of
 * another shape are skipped. The text is cut up in place. */
bool coto_cgroup_text_line(char **cursor, char **ret_names, char **ret_path);
