#include "schema/bodies.h"

#include "base/err.h"
#include "schema/verdict.h"

#include <string.h>

#define IN(id) ((uint64_t)1 << COTO_BODY_##id)
#define IN_RUNS (IN(run) | IN(execute))
#define IN_ALL (IN_RUNS | IN(create))
#define IN_NEW (IN(run) | IN(create))
#define OUT_RUNS (IN(result) | IN(execution))
#define ONE_WORD(id, word, doc) word "|"
#define ERR_WORD(id, code, http, word, doc) word "|"
#define HTTP_WORD(status, word) word "|"
#define UNWRITTEN \
    ". What a program still held back when a limit ended it is not there: Python holds back some KiB, unless env has PYTHONUNBUFFERED=1 or the reply is a stream"

#define F(bodies, name, kind, of, flags, min, max, words, doc) \
    {bodies, name, COTO_KIND_##kind, COTO_BODY_##of, F_##flags, min, max, words, doc},
enum { F_PLAIN = 0, F_MUST = COTO_FIELD_MUST, F_NULLABLE = COTO_FIELD_NULL, F_MUST_NULL = 3 };

/* clang-format off */
const struct coto_body_field coto_body_fields[] = {
    F(IN_RUNS, "code", TEXT, none, MUST, 0, 16 * COTO_MB, "", "the program's text; it becomes main.py (main.js, ...) in the workspace, and coto-main.py in a sandbox that is kept")
    F(IN_ALL, "language", NAME, none, PLAIN, 0, 64, "",
      "language of the code, python unless the profile says otherwise: a name of `languages` in GET capabilities, or a usual short form of it (js, cpp, py)")
    F(IN_RUNS, "input", ANY, none, PLAIN, 0, 0, "",
      "reaches the code as JSON on its standard input, its numbers as they were written; not together with stdin or stdin_base64")
    F(IN_RUNS, "stdin", TEXT, none, PLAIN, 0, 16 * COTO_MB, "",
      "standard input of the code; not together with input or stdin_base64")
    F(IN_RUNS, "stdin_base64", TEXT, none, PLAIN, 0, 16 * COTO_MB, "",
      "the same as bytes, for what is no UTF-8 text; not together with input or stdin")
    F(IN_RUNS, "args", TEXTS, none, PLAIN, 0, 4096, "", "arguments of the program")
    F(IN_ALL, "env", PAIRS, none, PLAIN, 0, 1024, "",
      "variables of the program; it gets these and a few fixed ones, none of the service's. What an interpreter reads when it starts (PYTHONPATH, PYTHONHASHSEED, LD_LIBRARY_PATH) has it started for them; in a sandbox that keeps state they count at create. What an execution is given is its own; what a program sets itself (os.environ) stays with its state")
    F(IN_ALL, "files", LIST, file, PLAIN, 0, 1000, "",
      "files put into the workspace before anything runs")
    F(IN_ALL, "timeout_seconds", NUMBER, none, PLAIN, 0, COTO_API_TIMEOUT, "",
      "wall-clock limit of an execution")
    F(IN_NEW, "resource_limits", LIMITS, none, PLAIN, 0, 0, "", "limits of the sandbox")
    F(IN_NEW, "require", TEXTS, none, PLAIN, 0, 64, "",
      "walls and limits without which nothing is to run, by their names in `walls` of a result, or `all`: where one cannot be had the request is refused; without this a limit that the host cannot enforce is in `missing_walls` (of a gVisor container that may be `pids`)")
    F(IN_NEW, "isolation_level", WORD, none, PLAIN, 0, 0, "standard|high",
      "standard: namespaces and every kernel wall; high: a container, gVisor's unless the operator says otherwise, refused (422) where the host has none")
    F(IN_NEW, "profile", NAME, none, PLAIN, 0, 64, "", "built-in policy to start from: a name of `profiles` in GET capabilities")
    F(IN_NEW | IN(sandbox) | IN(record) | IN(callback), "agent_id", NAME, none, NULLABLE, 0, 120, "",
      "the caller's own name for who runs this; at most 120 bytes of UTF-8")
    F(IN_ALL, "cold", BOOL, none, PLAIN, 0, 0, "",
      "start a fresh interpreter instead of one that waits; false is no word against a profile (`cold`) or an operator who want it. It shares the sandbox with what earlier executions have left there, processes and files: for code of other trust create another one")
    F(IN_RUNS, "artifacts", BOOL, none, PLAIN, 0, 0, "",
      "reply with the contents of the files left in output/, 10 MiB of them in all: a file that goes past that comes without content, with its size and sha256; `GET files` of a sandbox has it")
    F(IN_RUNS, "async", BOOL, none, PLAIN, 0, 0, "",
      "answer at once (202) with the execution's id")
    F(IN_RUNS, "callback_url", NAME, none, PLAIN, 0, 2048, "",
      "of an async execution: its status is posted there at the end, signed; the operator has to have allowed the origin")
    F(IN(create), "lifetime_seconds", INT, none, PLAIN, 1, COTO_API_LIFETIME, "",
      "the sandbox ends after this at the latest, and what runs in it then (verdict `timeout`, limit `lifetime`); at most, and by default, what the operator says (`lifetime`)")
    F(IN(create), "idle_seconds", INT, none, PLAIN, 1, COTO_API_LIFETIME, "",
      "it ends when nothing was executed in it for this long; at most, and by default, what the operator says (`idle`)")
    F(IN(extend), "lifetime_seconds", INT, none, PLAIN, 1, COTO_API_LIFETIME, "",
      "it ends this long from now, be that later or sooner than it would; at most the operator's `lifetime` (more is refused), and never later than that counted from its creation: what goes beyond it is cut, and the reply says what holds")
    F(IN(extend), "idle_seconds", INT, none, PLAIN, 1, COTO_API_LIFETIME, "",
      "or when nothing was executed in it for this long, counted from now; at most what the operator says (`idle`)")
    F(IN(create), "destroy_after_execution", BOOL, none, PLAIN, 0, 0, "",
      "true: the sandbox is destroyed with its first execution, whose reply can have the `artifacts`; one that was refused is none. false is refused where the operator has every sandbox end so")
    F(IN(file), "path", TEXT, none, MUST, 1, 4000, "",
      "where: relative to the workspace, or below /tmp")
    F(IN(file), "content", TEXT, none, PLAIN, 0, 16 * COTO_MB, "", "its text; this or `content_base64`, one of the two")
    F(IN(artifact), "content", TEXT, none, PLAIN, 0, 16 * COTO_MB, "",
      "its text, when asked for; U+FFFD in it for bytes that are no UTF-8 (then `content_base64` has them all); not there: those of the execution are more than 10 MiB with it")
    F(IN(file) | IN(artifact), "content_base64", TEXT, none, PLAIN, 0, 22 * COTO_MB, "",
      "its bytes: of a file that is sent instead of `content`, of one that comes back where they are no UTF-8 text")
    F(IN(file), "executable", BOOL, none, PLAIN, 0, 0, "", "mode 0755 instead of 0644")
    F(IN(result), "schema_version", INT, none, MUST, 1, 1, "",
      "of this object; keys are only ever added")
    F(OUT_RUNS | IN(accepted) | IN(record) | IN(callback) | IN(event_start), "execution_id", UUID, none, MUST, 0, 0, "",
      "new for every execution")
    F(IN(result) | IN(record), "started_at", TIME, none, MUST, 0, 0, "", "when")
    F(IN(event_output), "data", TEXT, none, MUST, 0, 0, "",
      "what the program wrote since the last one; no character is cut")
    F(IN(event_output), "data_base64", TEXT, none, PLAIN, 0, 0, "",
      "the same bytes exactly, where they are no UTF-8 text")
    F(IN(execution), "output", TEXT, none, MUST, 0, 0, "",
      "what the program wrote to its standard output" UNWRITTEN)
    F(IN(execution), "output_base64", TEXT, none, PLAIN, 0, 0, "",
      "the same bytes exactly, where they are no UTF-8 text")
    F(IN(execution), "output_truncated", BOOL, none, MUST, 0, 0, "", "it wrote more than was kept")
    F(IN(execution), "state_kept", BOOL, none, MUST, 0, 0, "",
      "the next python execution finds variables and imports as the last one left them; programs of other languages, and cold ones, leave them alone. False: there are none yet, or a limit, a cancel or the program itself has ended their interpreter; the next python execution begins a new one, which keeps state again")
    F(IN(execution), "state_found", BOOL, none, MUST, 0, 0, "",
      "this one found variables and imports as an earlier execution left them")
    F(IN(execution), "state_note", TEXT, none, MUST_NULL, 0, 0, "",
      "why nothing was found that should be there, or nothing is kept")
    F(OUT_RUNS, "verdict", WORD, none, MUST, 0, 0, COTO_VERDICTS(ONE_WORD),
      "how the program ended")
    F(IN(record) | IN(callback), "verdict", WORD, none, MUST_NULL, 0, 0, COTO_VERDICTS(ONE_WORD),
      "how the program ended; null unless it is finished")
    F(OUT_RUNS, "limit", TEXT, none, MUST_NULL, 0, 0, "", "the option whose limit ended it; `lifetime`: that of its sandbox")
    F(OUT_RUNS, "stage", WORD, none, MUST, 0, 0, "build|run", "the last stage that ran")
    F(OUT_RUNS | IN(record) | IN(callback), "exit_code", INT, none, MUST_NULL, 0, 255, "",
      "its own exit status; null when a signal ended it")
    F(OUT_RUNS, "signal", INT, none, MUST_NULL, 1, 64, "", "the signal that ended it")
    F(OUT_RUNS, "exit_status", INT, none, MUST, 0, 255, "", "what `coto run` would exit with")
    F(OUT_RUNS | IN(metrics_of), "duration_ms", NUMBER, none, MUST, -1, 0, "", "wall-clock time")
    F(IN(record) | IN(callback), "duration_ms", NUMBER, none, MUST_NULL, -1, 0, "", "wall-clock time")
    F(OUT_RUNS, "cpu_ms", OBJECT, cpu, MUST, 0, 0, "", "CPU time of this execution")
    F(IN(record), "cpu_ms", NUMBER, none, MUST_NULL, -1, 0, "", "CPU time of this execution, user and system together")
    F(IN(cpu), "user", NUMBER, none, MUST_NULL, -1, 0, "", "in programs; null where it was not measured: of an interpreter that goes on")
    F(IN(cpu), "system", NUMBER, none, MUST_NULL, -1, 0, "", "in the kernel; null as above")
    F(OUT_RUNS | IN(record), "memory_peak_bytes", INT, none, MUST_NULL, 0, 0, "",
      "peak of the sandbox so far; null where the host cannot measure it")
    F(OUT_RUNS, "pids_peak", INT, none, MUST_NULL, 0, 0, "",
      "most processes at once; null where the host cannot measure it")
    F(OUT_RUNS, "oom_kills", INT, none, MUST, 0, 0, "", "processes that the memory limit has ended")
    F(IN(execution), "metrics", OBJECT, metrics_of, MUST, 0, 0, "", "what it used")
    F(IN(metrics_of), "memory_peak_mb", NUMBER, none, MUST_NULL, -1, 0, "",
      "peak of the sandbox so far")
    F(IN(result), "stdout", TEXT, none, MUST, 0, 0, "",
      "what the program wrote; bytes that are no UTF-8 appear as U+FFFD" UNWRITTEN)
    F(IN(result), "stdout_base64", TEXT, none, PLAIN, 0, 0, "",
      "the same bytes exactly, where they are no UTF-8 text")
    F(IN(result), "stdout_bytes_seen", INT, none, MUST, 0, 0, "", "bytes the program wrote")
    F(IN(result), "stdout_bytes_kept", INT, none, MUST, 0, 0, "", "bytes that were passed on")
    F(IN(result), "stdout_truncated", BOOL, none, MUST, 0, 0, "", "fewer were kept than seen")
    F(OUT_RUNS, "stderr", TEXT, none, MUST, 0, 0, "", "the same of its standard error")
    F(OUT_RUNS, "stderr_base64", TEXT, none, PLAIN, 0, 0, "",
      "its bytes exactly, where they are no UTF-8 text")
    F(IN(result), "stderr_bytes_seen", INT, none, MUST, 0, 0, "", "bytes the program wrote")
    F(IN(result), "stderr_bytes_kept", INT, none, MUST, 0, 0, "", "bytes that were passed on")
    F(IN(result), "stderr_truncated", BOOL, none, MUST, 0, 0, "", "fewer were kept than seen")
    F(IN(result), "artifacts", LIST, artifact, MUST, 0, 0, "",
      "files left in output/; none unless the request says `artifacts`")
    F(IN(artifacts), "artifacts", LIST, artifact, MUST, 0, 0, "",
      "files left in output/")
    F(IN(execution), "artifacts", LIST, artifact, PLAIN, 0, 0, "",
      "files left in output/, when asked for")
    F(IN(result) | IN(artifacts), "artifacts_skipped", INT, none, MUST, 0, 0, "",
      "links, devices, unreadable files and those over a limit, or with more than 64 MiB of holes")
    F(IN(execution), "artifacts_skipped", INT, none, PLAIN, 0, 0, "",
      "links, devices, unreadable files and those over a limit, or with more than 64 MiB of holes")
    F(IN(artifact), "name", TEXT, none, MUST, 0, 0, "", "below output/")
    F(IN(artifact), "name_base64", TEXT, none, PLAIN, 0, 0, "", "where the name is no UTF-8 text")
    F(IN(artifact), "bytes", INT, none, MUST, 0, 0, "", "size")
    F(IN(artifact), "type", TEXT, none, MUST_NULL, 0, 0, "", "media type by its extension")
    F(IN(artifact), "sha256", TEXT, none, MUST_NULL, 0, 64, "", "of its bytes")
    F(IN(result), "driver", TEXT, none, MUST, 0, 0, "", "isolation technology")
    F(IN(result), "runtime", TEXT, none, MUST_NULL, 0, 0, "", "container runtime and its version, how that was judged")
    F(IN(result), "isolation", TEXT, none, MUST_NULL, 0, 0, "", "isolation level of coto")
    F(IN(result), "language", TEXT, none, MUST_NULL, 0, 0, "", "language of the code")
    F(IN(result), "profile", TEXT, none, MUST_NULL, 0, 0, "", "built-in policy it started from")
    F(IN(result) | IN(record), "policy_hash", TEXT, none, MUST_NULL, 0, 64, "", "SHA-256 of the whole policy")
    F(IN(result) | IN(record), "code_hash", TEXT, none, MUST_NULL, 0, 64, "", "SHA-256 of the code")
    F(IN(result), "seccomp_filter_hash", TEXT, none, MUST_NULL, 0, 64, "",
      "SHA-256 of the system-call filter")
    F(IN(result) | IN(capabilities), "walls", MAP, wall, MUST, 0, 0, "",
      "every wall and limit by name")
    F(OUT_RUNS, "missing_walls", TEXTS, none, MUST, 0, 0, "",
      "walls and limits that were wanted and are not up")
    F(IN(created) | IN(sandbox), "missing_walls", TEXTS, none, MUST_NULL, 0, 0, "",
      "walls and limits that were wanted and do not hold in it, as far as that shows before something has run. null: not known yet, the service has just started again and something runs in it")
    F(IN(wall), "up", BOOL, none, MUST, 0, 0, "", "read back from the kernel, or measured")
    F(IN(wall), "wanted", BOOL, none, PLAIN, 0, 0, "", "the policy asks for it")
    F(IN(wall), "mechanism", TEXT, none, MUST_NULL, 0, 0, "", "what enforces it")
    F(IN(wall), "value", TEXT, none, NULLABLE, 0, 0, "", "as read back")
    F(IN(wall), "note", TEXT, none, NULLABLE, 0, 0, "", "why it is not up")
    F(IN(wall), "remedy", TEXT, none, NULLABLE, 0, 0, "", "of capabilities: what to do about that")
    F(IN(accepted), "state", WORD, none, MUST, 0, 0, "queued|cancelling",
      "it waits for its turn, or is being ended")
    F(IN(record), "result", OUTCOME, none, PLAIN, 0, 0, "",
      "of an async execution that ended: the object of a plain reply, kept for ten minutes")
    F(IN(record), "error", OBJECT, error, PLAIN, 0, 0, "", "or why there is none")
    F(IN(created) | IN(sandbox) | IN(destroyed), "sandbox_id", UUID, none, MUST, 0, 0, "",
      "of the sandbox")
    F(IN(created), "access_token", TEXT, none, MUST, 0, 0, "",
      "bearer token for this sandbox alone: all of /api/v1/sandbox/{id} but DELETE and extend, and its executions by their ids")
    F(IN(created) | IN(sandbox), "created_at", TIME, none, MUST, 0, 0, "", "when")
    F(IN(created) | IN(sandbox), "lifetime_seconds", INT, none, MUST, 0, 0, "",
      "counted from its creation: it ends after this at the latest, and what runs in it then")
    F(IN(created) | IN(sandbox), "idle_seconds", INT, none, MUST, 0, 0, "",
      "it ends when it was unused for this long")
    F(IN(created) | IN(sandbox), "destroy_after_execution", BOOL, none, MUST, 0, 0, "",
      "it ends with its first execution")
    F(IN(record) | IN(callback), "sandbox_id", UUID, none, MUST_NULL, 0, 0, "", "null: it had one of its own")
    F(IN(record), "state", WORD, none, MUST, 0, 0, "queued|running|finished|error|interrupted",
      "error: coto failed; interrupted: the service ended before it did")
    F(IN(records), "executions", LIST, record, MUST, 0, 0, "", "newest first")
    F(IN(records), "next", UUID, none, MUST_NULL, 0, 0, "",
      "what `before` must be for the next page; null: there is none")
    F(IN(callback), "tenant", TEXT, none, MUST, 1, 127, "",
      "whose execution it is: the `sub` of the token it was asked for with, `local` for the local token, `uid:N` on the unix socket. Everybody's callbacks are signed with the same key: take those of your own tenant only")
    F(IN(callback), "callback_url", TEXT, none, MUST, 1, 2048, "",
      "where this was posted to, as it was asked for: one that names another address was not meant for you")
    F(IN(callback), "state", WORD, none, MUST, 0, 0, "finished|error", "error: coto failed")
    F(IN(sandbox), "state", WORD, none, MUST, 0, 0, "idle|busy|ending",
      "whether something runs in it")
    F(IN(sandbox), "executions", INT, none, MUST, 0, 0, "", "how many there were")
    F(IN(sandbox), "language", TEXT, none, MUST_NULL, 0, 0, "", "of its code")
    F(IN(sandbox), "isolation_level", WORD, none, MUST, 0, 0, "standard|high", "what is around it")
    F(IN(sandbox), "limits", OBJECT, in_force, MUST, 0, 0, "", "what holds in it, asked for or not; null: no limit does")
    F(IN(in_force), "timeout_seconds", NUMBER, none, MUST_NULL, 0, 0, "", "wall-clock limit of an execution that asks for no other")
    F(IN(in_force), "memory_mb", NUMBER, none, MUST_NULL, -1, 0, "", "memory of all its processes, in MiB")
    F(IN(in_force), "cpu", NUMBER, none, MUST_NULL, -1, 0, "", "CPUs")
    F(IN(in_force), "pids", INT, none, MUST_NULL, 0, 0, "", "processes and threads")
    F(IN(in_force), "disk_mb", NUMBER, none, MUST_NULL, -1, 0, "", "workspace, in MiB")
    F(IN(in_force), "tmp_mb", NUMBER, none, MUST_NULL, -1, 0, "", "/tmp, and as much again /dev/shm, in MiB")
    F(IN(in_force), "ptys", INT, none, MUST_NULL, 0, 0, "", "terminals that programs can open")
    F(IN(in_force), "output_bytes", INT, none, MUST_NULL, 0, 0, "", "of each of standard output and error of an execution; of either a reply holds 10 MiB at most, a stream all")
    F(IN(sandboxes), "sandboxes", LIST, sandbox, MUST, 0, 0, "", "in no order")
    F(IN(destroyed), "destroyed", BOOL, none, MUST, 0, 0, "", "nothing of it is left")
    F(IN(destroyed), "ending", BOOL, none, PLAIN, 0, 0, "", "an execution is being ended first")
    F(IN(revoke), "token", TEXT, none, MUST, 1, 8192, "", "a token of this tenant that is signed and has not expired, with a jti")
    F(IN(revoked), "revoked", BOOL, none, MUST, 0, 0, "", "always true")
    F(IN(stored) | IN(removed) | IN(directory), "path", TEXT, none, MUST, 0, 0, "",
      "absolute, as programs in the sandbox name it")
    F(IN(stored), "bytes", INT, none, MUST, 0, 0, "", "size of the file as it is now")
    F(IN(unpacked), "files", INT, none, MUST, 0, 0, "", "how many files were written")
    F(IN(unpacked), "directories", INT, none, MUST, 0, 0, "",
      "how many directories were in the archive")
    F(IN(unpacked), "bytes", INT, none, MUST, 0, 0, "", "size of all files")
    F(IN(removed), "removed", BOOL, none, MUST, 0, 0, "", "always true")
    F(IN(directory), "entries", LIST, entry, MUST, 0, 0, "", "in no order")
    F(IN(directory), "truncated", BOOL, none, MUST, 0, 0, "", "there are more")
    F(IN(entry), "name", TEXT, none, MUST, 0, 0, "", "without its directory")
    F(IN(entry), "name_base64", TEXT, none, PLAIN, 0, 0, "", "where the name is no UTF-8 text")
    F(IN(entry), "type", WORD, none, MUST, 0, 0, "file|directory|link|other",
      "what it is; links are not followed")
    F(IN(entry), "bytes", INT, none, MUST, 0, 0, "", "size of a file")
    F(IN(entry), "mode", TEXT, none, MUST, 0, 4, "", "permissions, octal")
    F(IN(capabilities), "front", OBJECT, front, MUST, 0, 0, "", "of the process that answers here")
    F(IN(capabilities), "launcher", OBJECT, privileged, MUST, 0, 0, "", "of the process that makes sandboxes")
    F(IN(capabilities), "keeper", OBJECT, privileged, MUST, 0, 0, "", "of the process that starts the others")
    F(IN(front), "uid", INT, none, MUST, 0, 0, "", "never 0")
    F(IN(privileged), "uid", INT, none, MUST, 0, 0, "", "0 where root has started the service")
    F(IN(front) | IN(privileged), "capabilities", INT, none, MUST, 0, 0, "", "a bit each, of all sets but the bounding set; 0: none")
    F(IN(privileged), "capability_names", TEXTS, none, MUST, 0, 0, "", "the same in words")
    F(IN(privileged), "bounding", INT, none, MUST, 0, 0, "", "capabilities that programs it starts could have at most")
    F(IN(front) | IN(privileged), "no_new_privs", BOOL, none, MUST, 0, 0, "", "no program it starts can gain rights")
    F(IN(front) | IN(privileged), "seccomp", BOOL, none, MUST, 0, 0, "", "system calls are filtered")
    F(IN(front), "seccomp_filter", TEXT, none, MUST, 0, 0, "", "SHA-256 of the filter")
    F(IN(privileged), "seccomp_filter", TEXT, none, MUST_NULL, 0, 0, "", "the same; null: the service has loaded none")
    F(IN(front), "landlock_abi", INT, none, MUST, 0, 0, "", "0: this kernel has no Landlock: files are read and written as its user may; from 4 on it also refuses TCP, from 6 on signals")
    F(IN(front), "own_network", BOOL, none, MUST, 0, 0, "", "it is in a network namespace with nothing in it; either way the filter lets it make no socket")
    F(IN(front) | IN(privileged), "dumpable", BOOL, none, MUST, 0, 0, "", "others of its user could read its memory")
    F(IN(capabilities), "limits", OBJECT, in_force, MUST, 0, 0, "", "of a sandbox for which nothing is asked; those in force are in GET sandbox/{id}")
    F(IN(capabilities), "at_most", OBJECT, in_force, MUST, 0, 0, "", "what the operator lets a request ask for; null: anything")
    F(IN(capabilities), "profiles", TEXTS, none, MUST, 0, 0, "", "what profile may be")
    F(IN(capabilities), "isolation_levels", TEXTS, none, MUST, 0, 0, "",
      "what isolation_level may be")
    F(IN(capabilities), "high", OBJECT, high, MUST, 0, 0, "", "what isolation_level high is here")
    F(IN(high), "available", BOOL, none, MUST, 0, 0, "", "a request for it would be served")
    F(IN(high), "isolation", WORD, none, MUST_NULL, 0, 0, "container|docker",
      "as in `coto run --isolation`; null where the operator wants none")
    F(IN(high), "runtime", TEXT, none, MUST_NULL, 0, 0, "", "what runs it, such as runsc (gVisor)")
    F(IN(high), "image", TEXT, none, MUST_NULL, 0, 0, "",
      "its root file system; null: this host's programs, or the engine's default")
    F(IN(high), "message", TEXT, none, MUST_NULL, 0, 0, "", "what is missing")
    F(IN(high), "remedy", TEXT, none, MUST_NULL, 0, 0, "", "what to do about it")
    F(IN(capabilities), "languages", TEXTS, none, MUST, 0, 0, "", "languages whose tool is there")
    F(IN(capabilities), "language_versions", PAIRS, none, MUST, 0, 0, "",
      "what their tools say of themselves, in one line, asked once in a sandbox; not of those that say nothing (sh)")
    F(IN(health), "status", WORD, none, MUST, 0, 0, "ok|ready|warming|draining|failing", "in a word")
    F(IN(error), "code", WORD, none, MUST, 0, 0,
      COTO_ERR_KINDS(ERR_WORD) COTO_ERR_HTTP_WORDS(HTTP_WORD), "kind of error; others may be added")
    F(IN(error), "message", TEXT, none, MUST, 0, 0, "", "what is wrong, and why")
    F(IN(error), "remedy", TEXT, none, MUST_NULL, 0, 0, "", "what to do about it")
    F(IN(error), "field", TEXT, none, MUST_NULL, 0, 0, "", "the field of the request it is about")
};
/* clang-format on */
const unsigned coto_body_field_count = sizeof coto_body_fields / sizeof coto_body_fields[0];

const struct coto_limit_row coto_limits[] = {
    {"memory_mb", COTO_OPT_MEMORY, "m", "8g"},
    {"disk_mb", COTO_OPT_DISK, "m", "8g"},
    {"cpu", COTO_OPT_CPUS, "", "64"},
    {"memory", COTO_OPT_MEMORY, "", "8g"},
    {"swap", COTO_OPT_SWAP, "", "8g"},
    {"cpus", COTO_OPT_CPUS, "", "64"},
    {"cpu_time", COTO_OPT_CPU_TIME, "", "none"},
    {"pids", COTO_OPT_PIDS, "", "4096"},
    {"disk", COTO_OPT_DISK, "", "8g"},
    {"tmp_size", COTO_OPT_TMP_SIZE, "", "8g"},
    {"inodes", COTO_OPT_INODES, "", "1000000"},
    {"nofile", COTO_OPT_NOFILE, "", "65536"},
    {"ptys", COTO_OPT_PTYS, "", "64"},
    {"fsize", COTO_OPT_FSIZE, "", "none"},
    {"iops", COTO_OPT_IOPS, "", "none"},
    {"output_limit", COTO_OPT_OUTPUT_LIMIT, "", "none"},
    {"noexec", COTO_OPT_NOEXEC, "", ""},
};
const unsigned coto_limit_count = sizeof coto_limits / sizeof coto_limits[0];

const struct coto_body_info coto_bodies[COTO_BODY_COUNT] = {
    {"", ""}, {"", ""}, {"", ""}, {"", ""}, {"", ""},
#define X(id, doc) {#id, doc},
    COTO_BODIES(X)
#undef X
};

const struct coto_body_field *coto_body_field(enum coto_body body, const char *name)
{
    for (unsigned i = 0; i < coto_body_field_count; i++)
        if (coto_body_fields[i].bodies >> body & 1 && strcmp(coto_body_fields[i].name, name) == 0)
            return &coto_body_fields[i];
    return NULL;
}

const struct coto_limit_row *coto_limit_find(const char *name)
{
    for (unsigned i = 0; i < coto_limit_count; i++)
        if (strcmp(coto_limits[i].name, name) == 0)
            return &coto_limits[i];
    return NULL;
}
