/* Verbs of the command line. One row each: name, operands, one-line help, and
 * whether the policy options apply. The function is coto_cli_<name> and lives in
 * a file of its own; argv[0] is the verb. A verb that is no row is looked for as
 * a program coto-VERB.
 */
#pragma once

#include <stdbool.h>

/* clang-format off */
#define COTO_VERBS(X) \
    X(run, "[OPTIONS] FILE [ARGS...] | -c CODE --lang L | - | -- CMD [ARGS...]", true, \
      "run code or a command in a sandbox") \
    X(test, "[OPTIONS] SUBMISSION_DIR [TESTS_DIR]", true, \
      "run a submission against its tests and list each case") \
    X(profiles, "[list | show NAME] [--json]", false, \
      "list the built-in policies, or show one") \
    X(policy, "explain [OPTIONS] | check FILE [--json]", true, \
      "tell each value and who set it, or check a policy file") \
    X(doctor, "[--json]", false, \
      "tell which walls and limits this host can give, and how to get the others") \
    X(version, "[--json]", false, \
      "print the version") \
    X(help, "[VERB]", false, \
      "print help")
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

#define X(name, ...) int coto_cli_##name(int argc, char **argv, char **envp);
COTO_VERBS(X)
#undef X
