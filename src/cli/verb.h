/* Verbs of the command line. One row each: name, operands (forms separated by
 * " | "), whether the policy options apply, one-line help. The function is
 * coto_cli_<name> and lives in a file of its own; argv[0] is the verb. A verb that
 * is no row is looked for as a program coto-VERB.
 */
#pragma once

#include "base/err.h"
#include "schema/options.h"

#include <stdbool.h>
#include <string.h>

/* clang-format off */
#define COTO_VERBS(X) \
    X(run, "[OPTIONS] FILE [ARGS...] | [OPTIONS] -c CODE --lang LANGUAGE [ARGS...] | " \
           "[OPTIONS] - [ARGS...] | [OPTIONS] -- COMMAND [ARGS...]", true, \
      "run code or a command in a sandbox") \
    X(test, "[OPTIONS] SUBMISSION_DIR [TESTS_DIR]", true, \
      "run a submission against its tests and list each case") \
    X(profiles, "[--json] | show NAME [--json]", false, \
      "list the built-in policies, or show one") \
    X(policy, "explain [OPTIONS] | check FILE [--json]", true, \
      "tell each value and who set it, or check a policy file") \
    X(doctor, "[--json]", false, \
      "tell which walls and limits this host can give, and how to get the others") \
    X(version, "[--json]", false, \
      "print the version") \
    X(help, "[VERB]", false, \
      "print help")

/* Flags of test alone: field of its struct, name, metavar, help. */
#define COTO_TEST_FLAGS(X) \
    X(runner_name, "runner", "NAME", "test runner to use; else taken from the files present") \
    X(junit_file, "junit", "FILE", "write the cases as JUnit XML there too")

/* Verbs that are programs of their own, because of the libraries they need. */
#define COTO_PROGRAMS(X) \
    X(serve, "offer sandboxes over HTTP") \
    X(image, "keep, check and sign root file systems for sandboxes") \
    X(pki,   "make certificates for the service and its clients") \
    X(token, "make keys and tokens for clients of the service")
/* clang-format on */

struct coto_verb {
    const char *name;
    const char *operands;
    bool has_options;
    const char *help;
    int (*main)(int argc, char **argv, char **envp);
};

/* Ends with a row whose name is NULL. */
extern const struct coto_verb coto_verbs[];
const struct coto_verb *coto_verb_find(const char *name);
/* Runs coto-VERB in place of this process, argv[0] being the verb; comes back with 0 when
 * there is no such program, or fails. */
int coto_verb_exec(char **argv, char **envp, struct coto_err *err);

#define X(name, ...) int coto_cli_##name(int argc, char **argv, char **envp);
COTO_VERBS(X)
#undef X

/* Heading of a section of options, in help and documents. */
static inline const char *coto_section_title(enum coto_opt_section section)
{
    static const char *const titles[] = {
        [COTO_SECTION_RUN] = "Code and how it runs",
        [COTO_SECTION_LIMITS] = "Limits",
        [COTO_SECTION_FILES] = "Files",
        [COTO_SECTION_WALLS] = "Walls",
        [COTO_SECTION_REPORT] = "Reports",
        [COTO_SECTION_SERVICE] = "A service to run it on (not of test)",
        [COTO_SECTION_CLI] = "Command line",
    };
    return titles[section];
}

/* A service runs code, and no folder with its tests. */
static inline bool coto_verb_has_section(const char *verb, enum coto_opt_section section)
{
    return section != COTO_SECTION_SERVICE || strcmp(verb, "test") != 0;
}
