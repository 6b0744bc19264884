/* Every option, declared once. A row feeds the flag, --help, the policy file key,
 * the COTO_* variable, the JSON policy, docs/OPTIONS.md, the man page, shell
 * completion and the fuzz dictionary. Nothing about an option is written
 * anywhere else; to add one, add a row here and the step that honours it.
 *
 * Columns: id, name, type, default, minimum, maximum, metavar, section, help.
 *   name      the flag without "--", and the policy key; COTO_NAME in the environment
 *   default   text in the type's own syntax; the `default` profile. Other
 *             profiles (profiles/<name>.yaml) override it
 *   minimum, maximum   for numbers, in the type's unit (bytes, ms, milli-CPUs)
 *   metavar   for enums the choices, "a|b|c"
 *   section   RUN, LIMITS, FILES, WALLS, REPORT are policy; SERVICE (not of `coto test`)
 *             and CLI are flags only
 */
#pragma once

#include <stdint.h>

enum coto_opt_type {
    COTO_TYPE_BOOL,     /* true or false; as a flag --name or --no-name */
    COTO_TYPE_INT,      /* whole number, or "none" where max is COTO_MAX_NONE */
    COTO_TYPE_SIZE,     /* bytes; 10k, 256m, 1.5g, none */
    COTO_TYPE_DURATION, /* milliseconds; 500ms, 30s, 1m30s, none; a bare number is seconds */
    COTO_TYPE_CPUS,     /* milli-CPUs; 0.5, 2, none */
    COTO_TYPE_ENUM,     /* one of the words in metavar; num is its index */
    COTO_TYPE_STRING,   /* one line of text */
    COTO_TYPE_LIST,     /* repeatable flag, comma-separated where the metavar says so, YAML list */
    COTO_TYPE_MAP,      /* repeatable KEY=VALUE flag, YAML mapping; stored as "KEY=VALUE" items */
};

enum coto_opt_section {
    COTO_SECTION_RUN,
    COTO_SECTION_LIMITS,
    COTO_SECTION_FILES,
    COTO_SECTION_WALLS,
    COTO_SECTION_REPORT,
    COTO_SECTION_SERVICE,
    COTO_SECTION_CLI,
    COTO_SECTION_COUNT
};

/* Maximum that also admits "none" (no limit). */
#define COTO_MAX_NONE INT64_MAX
#define COTO_KB ((int64_t)1024)
#define COTO_MB (1024 * COTO_KB)
#define COTO_GB (1024 * COTO_MB)
#define COTO_TB (1024 * COTO_GB)

/* clang-format off */
#define COTO_OPTIONS(X) \
    X(LANG,       "lang",       STRING,   "",     0, 0, "LANGUAGE", RUN, \
      "language of the code; else taken from the extension, the #! line or an ELF header") \
    X(ENV,        "env",        MAP,      "",     0, 0, "KEY=VALUE", RUN, \
      "variable for the program (repeatable); nothing is inherited from the caller") \
    X(USER,       "user",       STRING,   "10000:10000", 0, 0, "UID[:GID]", RUN, \
      "uid and gid the program sees; never 0, never a uid of the host") \
    X(USER_NAME,  "user-name",  STRING,   "sandbox", 0, 0, "NAME", RUN, \
      "name of that user in the sandbox's passwd file") \
    X(HOSTNAME,   "hostname",   STRING,   "coto", 0, 0, "NAME", RUN, \
      "host name inside the sandbox") \
    X(WORKDIR,    "workdir",    STRING,   "/workspace", 0, 0, "PATH", RUN, \
      "the workspace inside the sandbox: working directory and HOME") \
    X(MODULES,    "modules",    LIST,     "",     0, 0, "MODULE,...", RUN, \
      "Python modules that the service has imported, beside the usual ones, in the interpreter that waits for programs") \
    X(COLD,       "cold",       BOOL,     "false", 0, 0, "", RUN, \
      "the service starts a fresh interpreter for every program instead of using one that waits; a run of the command line always has one") \
    X(TIMEOUT,    "timeout",    DURATION, "30s",  1, 86400000, "TIME", LIMITS, \
      "wall-clock limit; the whole process tree ends, exit 124") \
    X(CPU_TIME,   "cpu-time",   DURATION, "none", 10, COTO_MAX_NONE, "TIME", LIMITS, \
      "limit on CPU time used by the whole tree; exit 124") \
    X(MEMORY,     "memory",     SIZE,     "512m", 4 * COTO_MB, COTO_MAX_NONE, "SIZE", LIMITS, \
      "memory limit of the whole tree; exit 137 when it is exceeded") \
    X(SWAP,       "swap",       SIZE,     "0",    0, COTO_MAX_NONE, "SIZE", LIMITS, \
      "swap the tree may use beside its memory") \
    X(CPUS,       "cpus",       CPUS,     "2",    10, COTO_MAX_NONE, "N", LIMITS, \
      "CPUs the tree may use, as a fraction; more is throttled") \
    X(PIDS,       "pids",       INT,      "128",  1, COTO_MAX_NONE, "N", LIMITS, \
      "processes and threads alive at once") \
    X(DISK,       "disk",       SIZE,     "256m", 64 * COTO_KB, COTO_TB, "SIZE", LIMITS, \
      "size of the workspace") \
    X(TMP_SIZE,   "tmp-size",   SIZE,     "64m",  64 * COTO_KB, COTO_TB, "SIZE", LIMITS, \
      "size of /tmp, and of /dev/shm and each extra tmpfs without a size of its own") \
    X(INODES,     "inodes",     INT,      "65536", 16, 100000000, "N", LIMITS, \
      "files and directories on each writable file system") \
    X(OUTPUT_LIMIT, "output-limit", SIZE, "none", 0, COTO_MAX_NONE, "SIZE", LIMITS, \
      "bytes passed on of stdout, and as many of stderr; the rest is counted and dropped (--json keeps at most 10m)") \
    X(ON_OUTPUT_LIMIT, "on-output-limit", ENUM, "cut", 0, 0, "cut|kill", LIMITS, \
      "what happens past the output limit: cut and go on, or end the run") \
    X(NOFILE,     "nofile",     INT,      "1024", 8, 1048576, "N", LIMITS, \
      "open descriptors per process") \
    X(PTYS,       "ptys",       INT,      "0",    0, 64, "N", LIMITS, \
      "pseudo-terminals a program may make; what the kernel does for them is outside the CPU limit") \
    X(FSIZE,      "fsize",      SIZE,     "none", 0, COTO_MAX_NONE, "SIZE", LIMITS, \
      "largest file a process may write") \
    X(IOPS,       "iops",       INT,      "none", 1, COTO_MAX_NONE, "N", LIMITS, \
      "read and write operations per second on the host's disk") \
    X(COPY,       "copy",       LIST,     "",     0, 0, "SRC:DST", FILES, \
      "copy a file or directory into the workspace or /tmp (repeatable)") \
    X(MOUNT,      "mount",      LIST,     "",     0, 0, "SRC:DST[:ro|rw]", FILES, \
      "show a host directory or file inside, read-only unless :rw (repeatable)") \
    X(TMPFS,      "tmpfs",      LIST,     "",     0, 0, "PATH[:SIZE]", FILES, \
      "extra private writable directory (repeatable)") \
    X(ARTIFACTS,  "artifacts",  STRING,   "",     0, 0, "DIR", FILES, \
      "put the files the program left in output/ of its workspace there") \
    X(ROOTFS,     "rootfs",     STRING,   "",     0, 0, "DIR", FILES, \
      "root file system to use instead of the host's program directories") \
    X(IMAGE,      "image",      STRING,   "python:3.11-slim", 0, 0, "NAME", FILES, \
      "image for the root file system: with docker a name or digest that the engine has, else one of 'coto image'; NAME@sha256:... is checked before the run") \
    X(IMAGE_KEY,  "image-key",  STRING,   "",     0, 0, "FILE", FILES, \
      "run only an image that carries a good signature of this key (minisign, PEM or OpenPGP; see coto image sign)") \
    X(IMAGES_DIR, "images-dir", STRING,   "",     0, 0, "DIR", FILES, \
      "where 'coto image' keeps images, if not in /var/lib/coto/images or the caller's data directory") \
    X(WRITABLE,   "workspace-writable", ENUM, "all", 0, 0, "all|output", FILES, \
      "which part of the workspace the program may write to") \
    X(NOEXEC,     "noexec",     BOOL,     "false", 0, 0, "", FILES, \
      "no program may be started from a writable place") \
    X(ISOLATION,  "isolation",  ENUM,     "process", 0, 0, "process|subprocess|container|docker|vm", WALLS, \
      "process: namespaces and every kernel wall; container: an OCI runtime; docker: the Docker engine; subprocess: no isolation at all") \
    X(RUNTIME,    "runtime",    STRING,   "",     0, 0, "NAME", WALLS, \
      "container runtime: runc, crun, runsc, kata-runtime; with docker a name that the engine knows, and its default if left out") \
    X(ALLOW_RUNTIME, "allow-runtime", LIST, "",   0, 0, "NAME[@VERSION],...", WALLS, \
      "container runtimes to use although the fix of a known escape is missing in them") \
    X(REQUIRE,    "require",    LIST,     "",     0, 0, "WALL,...", WALLS, \
      "refuse to run unless these walls and limits are enforced ('all': every one that this policy asks for; apparmor by its name)") \
    X(ALLOW_MISSING, "allow-missing", LIST, "",   0, 0, "WALL,...", WALLS, \
      "run although these walls cannot be had on this host") \
    X(SECCOMP,    "seccomp",    ENUM,     "default", 0, 0, "strict|default|debug", WALLS, \
      "tier of the system-call allow-list") \
    X(APPARMOR,   "apparmor",   STRING,   "coto-sandbox", 0, 0, "PROFILE", WALLS, \
      "AppArmor profile of the program, where the kernel has AppArmor (deploy/apparmor); none: do not ask for one") \
    X(CAP_ADD,    "cap-add",    LIST,     "",     0, 0, "CAP,...", WALLS, \
      "capabilities kept inside the sandbox's own user namespace (chown, fowner, setuid, setgid)") \
    X(NETWORK,    "network",    ENUM,     "none", 0, 0, "none|allow-list", WALLS, \
      "network the program gets; none is a loopback of its own, and nothing else") \
    X(NETWORK_ALLOW, "network-allow", LIST, "",   0, 0, "HOST:PORT,...", WALLS, \
      "destinations of the allow-list") \
    X(IDMAP,      "idmap",      ENUM,     "auto", 0, 0, "auto|single|subuid", WALLS, \
      "without root: map the caller's own id, or one of its subordinate ids") \
    X(REPORT,     "report",     STRING,   "",     0, 0, "DIR", REPORT, \
      "write one JSON report of the execution there") \
    X(REPORT_INCLUDE, "report-include", LIST, "", 0, 0, "code|prompt|output|env,...", REPORT, \
      "what the report may hold in clear; by default hashes only") \
    X(PROMPT_HASH, "prompt-hash", STRING, "",     0, 0, "SHA256", REPORT, \
      "hash of the prompt the code came from, for the report") \
    X(PROMPT_FILE, "prompt-file", STRING, "",     0, 0, "FILE", REPORT, \
      "file or pipe with that prompt; only its hash is kept") \
    X(CODE,       "code",       STRING,   "",     0, 0, "CODE", CLI, \
      "run this text (with --lang)") \
    X(PROFILE,    "profile",    STRING,   "default", 0, 0, "NAME", CLI, \
      "built-in policy to start from (see: coto profiles)") \
    X(POLICY,     "policy",     STRING,   "",     0, 0, "FILE", CLI, \
      "policy file, YAML or JSON, on top of the profile") \
    X(SERVER,     "server",     STRING,   "",     0, 0, "URL", SERVICE, \
      "run it on a coto service: unix:/run/coto/api.sock, http://127.0.0.1:8640, https://HOST:PORT") \
    X(TOKEN_FILE, "token-file", STRING,   "",     0, 0, "FILE", SERVICE, \
      "file with the token for that service") \
    X(SERVER_CA,  "server-ca",  STRING,   "",     0, 0, "FILE", SERVICE, \
      "PEM: the authority that its certificate must come from") \
    X(CLIENT_CERTIFICATE, "client-certificate", STRING, "", 0, 0, "FILE", SERVICE, \
      "PEM: the certificate to show to it") \
    X(CLIENT_KEY, "client-key", STRING,   "",     0, 0, "FILE", SERVICE, \
      "PEM: the key of that certificate") \
    X(JSON,       "json",       BOOL,     "false", 0, 0, "", CLI, \
      "print one result object and nothing else") \
    X(QUIET,      "quiet",      BOOL,     "false", 0, 0, "", CLI, \
      "no closing line") \
    X(VERBOSE,    "verbose",    BOOL,     "false", 0, 0, "", CLI, \
      "each step with its time, on stderr") \
    X(RAW,        "raw",        BOOL,     "false", 0, 0, "", CLI, \
      "do not neutralise the program's terminal escapes") \
    X(DRY_RUN,    "dry-run",    BOOL,     "false", 0, 0, "", CLI, \
      "print the plan as JSON and run nothing")
/* clang-format on */

enum coto_opt {
#define X(id, ...) COTO_OPT_##id,
    COTO_OPTIONS(X)
#undef X
        COTO_OPT_COUNT
};

struct coto_opt_row {
    const char *name;
    enum coto_opt_type type;
    const char *fallback;
    int64_t min;
    int64_t max;
    const char *metavar;
    enum coto_opt_section section;
    const char *help;
};

extern const struct coto_opt_row coto_options[COTO_OPT_COUNT];

/* Whether a policy file can have it. */
static inline int coto_opt_is_policy(enum coto_opt opt)
{
    return coto_options[opt].section < COTO_SECTION_SERVICE;
}
/* Index of a name, or -1. '_' and '-' are the same letter. */
int coto_opt_find(const char *name, unsigned long len);
/* Index of a word in an enum's metavar, or -1. */
int coto_opt_choice(enum coto_opt opt, const char *word);
/* The word of an enum value (borrowed, in a small static ring). */
const char *coto_opt_choice_name(enum coto_opt opt, int64_t value);

/* Indices of the enum words above, for code that decides on them. */
enum { COTO_OUTPUT_CUT, COTO_OUTPUT_KILL };
enum { COTO_WRITABLE_ALL, COTO_WRITABLE_OUTPUT };
enum {
    COTO_ISOLATION_PROCESS,
    COTO_ISOLATION_SUBPROCESS,
    COTO_ISOLATION_CONTAINER,
    COTO_ISOLATION_DOCKER,
    COTO_ISOLATION_VM
};
enum { COTO_SECCOMP_STRICT, COTO_SECCOMP_DEFAULT, COTO_SECCOMP_DEBUG };
enum { COTO_NETWORK_NONE, COTO_NETWORK_ALLOW };
enum { COTO_IDMAP_AUTO, COTO_IDMAP_SINGLE, COTO_IDMAP_SUBUID };
