/* Every setting of the service, declared once. A row feeds the flag of `coto serve`, the key of
 * its configuration file, `coto serve --help` and docs/SERVICE.md; to add one, add a row here
 * and the code that honours it.
 *
 * Columns: id, name, type, default, minimum, maximum, metavar, when, help.
 *   type   INT, DURATION (num, milliseconds), ENUM (num, its index in metavar), TEXT, LIST
 *   when   LIVE: a SIGHUP changes it; FILE: a SIGHUP reads the file that is named then; START: a change
 *          needs a restart, and a SIGHUP says so
 */
#pragma once

#include <stdint.h>

enum coto_setting_type {
    COTO_SETTING_INT,
    COTO_SETTING_DURATION,
    COTO_SETTING_ENUM,
    COTO_SETTING_TEXT,
    COTO_SETTING_LIST,
};
enum coto_setting_when { COTO_SETTING_START, COTO_SETTING_LIVE, COTO_SETTING_FILE };

/* clang-format off */
#define COTO_SETTINGS(X) \
    X(SOCKET, "socket", TEXT, "", 0, 0, "PATH", START, \
      "unix socket of this user and root; default api.sock in runtime-dir; none: no socket") \
    X(PORT, "port", INT, "8640", 0, 65535, "N", START, \
      "port on 127.0.0.1, opened by the token in runtime-dir, or a service token where jwt-key is set; 0: any free one; none: no port") \
    X(LISTEN, "listen", LIST, "", 0, 0, "ADDR:PORT", START, \
      "address for others (repeatable), or unix:/path, where TLS is spoken too; needs the five settings that follow but for client-crl") \
    X(TLS_CERTIFICATE, "tls-certificate", TEXT, "", 0, 0, "FILE", FILE, \
      "PEM: the server's certificate and what leads to its authority") \
    X(TLS_KEY, "tls-key", TEXT, "", 0, 0, "FILE", FILE, \
      "PEM: its key; nobody else may be able to read it") \
    X(CLIENT_CA, "client-ca", TEXT, "", 0, 0, "FILE", FILE, \
      "PEM: the authority whose client certificates are let in") \
    X(CLIENT_CRL, "client-crl", TEXT, "", 0, 0, "FILE", FILE, \
      "PEM: revocation list of that authority; one for each, where there are several") \
    X(JWT_KEY, "jwt-key", LIST, "", 0, 0, "FILE", FILE, \
      "key of service tokens (repeatable): PEM, JWKS or a secret of 32 bytes and more") \
    X(JWT_AUDIENCE, "jwt-audience", TEXT, "coto", 0, 0, "NAME", START, \
      "service tokens must be for this audience (aud)") \
    X(JWT_ISSUER, "jwt-issuer", TEXT, "", 0, 0, "NAME", START, \
      "and of this issuer (iss); default: of any that signs with these keys") \
    X(CLIENT_NAMES, "client-names", LIST, "", 0, 0, "NAME", LIVE, \
      "client whose certificate is let in (repeatable): DNS or URI of its SAN, of urn:coto:client:NAME the NAME, the CN where there is no SAN; others get 403. Default: any of client-ca") \
    X(BIND_TOKENS, "bind-tokens", ENUM, "none", 0, 0, "none|certificate", LIVE, \
      "certificate: a token is good only with a certificate that has its subject as a name, so not at the port and the socket of this host") \
    X(RUNTIME_DIR, "runtime-dir", TEXT, "", 0, 0, "DIR", START, \
      "socket, token and lock; 0700. Default /run/coto, or coto in $XDG_RUNTIME_DIR") \
    X(STATE_DIR, "state-dir", TEXT, "", 0, 0, "DIR", START, \
      "records; 0700. Default /var/lib/coto/serve, or coto in $XDG_STATE_HOME (~/.local/state)") \
    X(USER, "user", TEXT, "coto", 0, 0, "NAME", START, \
      "who the front becomes when root starts the service; not set: nobody where there is no user coto") \
    X(PROFILE, "profile", TEXT, "default", 0, 0, "NAME", START, \
      "policy of requests that name no profile; its sandboxes are kept ready") \
    X(ALLOW_PROFILE, "allow-profile", LIST, "", 0, 0, "NAME", START, \
      "profile that requests may name (repeatable); default: all there are") \
    X(ALLOW_ISOLATION, "allow-isolation", LIST, "", 0, 0, "standard|high", START, \
      "isolation_level that requests may name (repeatable); default: all that this host has") \
    X(HIGH_ISOLATION, "high-isolation", ENUM, "container", 0, 0, "container|docker|none", START, \
      "what isolation_level high is: a container without a daemon, one of a Docker engine, or refused") \
    X(HIGH_RUNTIME, "high-runtime", TEXT, "runsc", 0, 0, "NAME", START, \
      "its runtime: runsc (gVisor, a kernel of its own), runc, crun, or a name the engine knows") \
    X(HIGH_IMAGE, "high-image", TEXT, "", 0, 0, "NAME", START, \
      "its image, of `coto image` or of the engine; default: this host's programs, python:3.11-slim with docker") \
    X(HIGH_IMAGES_DIR, "high-images-dir", TEXT, "", 0, 0, "DIR", START, \
      "store of `coto image` that it is in; default: the usual ones") \
    X(HIGH_IMAGE_KEY, "high-image-key", TEXT, "", 0, 0, "FILE", START, \
      "public key that it has to be signed with, checked before each container") \
    X(HIGH_ALLOW_RUNTIME, "high-allow-runtime", LIST, "", 0, 0, "NAME[@VERSION]", START, \
      "runtime that may lack the fix of a known escape (repeatable)") \
    X(HIGH_POOL_MIN, "high-pool-min", INT, "0", 0, 50, "N", LIVE, \
      "containers of level high kept ready, at least; one from a request on until five minutes after the last") \
    X(HIGH_POOL_MAX, "high-pool-max", INT, "2", 0, 50, "N", LIVE, \
      "and at most, of all kinds together; 0: none, each is made when it is asked for") \
    X(MAX_MEMORY, "max-memory", TEXT, "8g", 0, 0, "SIZE", START, \
      "memory of one sandbox, at most; profiles are cut down to it, requests beyond it refused; so with the next six") \
    X(MAX_CPUS, "max-cpus", TEXT, "64", 0, 0, "N", START, \
      "CPUs of one sandbox, at most") \
    X(MAX_TIMEOUT, "max-timeout", TEXT, "300s", 0, 0, "TIME", START, \
      "time of one execution, at most") \
    X(MAX_PIDS, "max-pids", TEXT, "4096", 0, 0, "N", START, \
      "processes of one sandbox, at most") \
    X(MAX_DISK, "max-disk", TEXT, "8g", 0, 0, "SIZE", START, \
      "bytes of its workspace, at most") \
    X(MAX_OUTPUT, "max-output", TEXT, "none", 0, 0, "SIZE", START, \
      "bytes of output of one execution, at most") \
    X(MAX_PTYS, "max-ptys", TEXT, "0", 0, 0, "N", START, \
      "pseudo-terminals of one sandbox, at most 64; what the kernel does for them is outside its CPU limit") \
    X(WORKERS, "workers", INT, "64", 1, 512, "N", START, \
      "executions at once; of two or more an eighth, at least one, is kept for tenants with few or none") \
    X(QUEUE, "queue", INT, "512", 0, 65536, "N", LIVE, \
      "requests that wait for a worker, those of one tenant in seven eighths of it; past it the answer is 429") \
    X(POOL_MIN, "pool-min", INT, "5", 0, 100, "N", LIVE, \
      "sandboxes kept ready, at least; of other profiles and languages one, once asked for") \
    X(POOL_MAX, "pool-max", INT, "100", 0, 1000, "N", LIVE, \
      "and at most, as many as are asked for, of all kinds together; each kind that is asked for has one while there is room") \
    X(POOL_WAIT, "pool-wait", DURATION, "5m", 1000, 3600000, "TIME", LIVE, \
      "one that was ready this long without being asked for is replaced; its lifetime counts from when it is handed out") \
    X(COLD, "cold", ENUM, "no", 0, 0, "no|yes", START, \
      "yes: every program gets a fresh interpreter, none waits for it (docs/decisions/0009), as with `cold` of a profile or a request, which it cannot undo") \
    X(MODULES, "modules", LIST, "", 0, 0, "MODULE", START, \
      "Python module (repeatable) that interpreters which wait have imported, beside the usual ones and those of their profile (coto profiles show)") \
    X(NODE_AHEAD, "node-ahead", INT, "2", 0, 50, "N", START, \
      "node processes started ahead, from the first node program on until five minutes after the last; 0: none") \
    X(MAX_SANDBOXES, "max-sandboxes", INT, "4095", 1, 4095, "N", START, \
      "sandboxes alive at once, ready ones included; more than pool-min and high-pool-min together") \
    X(TENANT_SANDBOXES, "tenant-sandboxes", INT, "1000", 1, 4095, "N", LIVE, \
      "sandboxes one tenant may hold; an eighth of max-sandboxes stays for others, also when its executions take theirs") \
    X(TENANT_REQUESTS, "tenant-requests", INT, "256", 1, 65536, "N", LIVE, \
      "requests of one tenant that are being worked on, from the head to the last byte of the reply; GETs are counted apart, DELETEs and revoked tokens are not limited; past it the answer is 429. Requests with the tokens of its sandboxes have seven eighths of them, each sandbox eight") \
    X(TENANT_BODIES, "tenant-bodies", INT, "512", 1, 1048576, "N", LIVE, \
      "MiB of bodies of one tenant's requests that are being worked on; one that would go past it and is above 1 MiB, or a DELETE of more than 16 KiB, is answered with 429. Those with the tokens of its sandboxes have half of it, each sandbox 16 MiB") \
    X(TENANT_UNREAD, "tenant-unread", INT, "512", 1, 1048576, "N", LIVE, \
      "MiB of replies of one tenant that wait to be read, and of results of async executions that wait to be recorded; one that would go past it and is above 1 MiB is answered with 503 instead, or not kept. Those for the tokens of its sandboxes have half of it") \
    X(TENANT_RATE, "tenant-rate", INT, "0", 0, 1000000, "N", LIVE, \
      "requests a second of one tenant; 0: any number") \
    X(TENANT_BURST, "tenant-burst", INT, "100", 1, 1000000, "N", LIVE, \
      "requests it may make at once, before the rate counts; with the tokens of its sandboxes seven eighths of them") \
    X(CALLBACK_ORIGIN, "callback-origin", LIST, "", 0, 0, "ORIGIN", START, \
      "where ends of async executions may be told (repeatable), such as https://hooks.example.com") \
    X(CALLBACK_KEY, "callback-key", TEXT, "", 0, 0, "FILE", START, \
      "32 bytes and more that callbacks are signed with; a line end at the end of the file is not part of them; nobody else may be able to read it") \
    X(LIFETIME, "lifetime", DURATION, "1h", 1000, 604800000, "TIME", LIVE, \
      "a sandbox ends after this, and what runs in it then") \
    X(IDLE, "idle", DURATION, "5m", 1000, 604800000, "TIME", LIVE, \
      "or when nothing has been executed in it for this long") \
    X(AFTER_EXECUTION, "after-execution", ENUM, "keep", 0, 0, "keep|destroy", LIVE, \
      "what becomes of a sandbox that was created: it is kept, with its state, until it is destroyed or its time is over; or it is destroyed with its first execution, as that of a run is") \
    X(CONNECTIONS, "connections", INT, "4096", 1, 65536, "N", START, \
      "connections at once, and 64 more at the unix socket; past it those make room that wait for a request, first of whom none was authorized") \
    X(PEER_CONNECTIONS, "peer-connections", INT, "1024", 1, 65536, "N", START, \
      "and of one address or user; past it one of the same makes room") \
    X(DURABILITY, "durability", ENUM, "promises", 0, 0, "promises|disk|kernel|off", START, \
      "when a result is told: once its record is on the disk (promises: of what somebody comes back for, else written), written, or at once") \
    X(KEEP_DAYS, "keep-days", INT, "30", 1, 3650, "N", START, \
      "records of executions are removed after this") \
    X(DRAIN, "drain", DURATION, "30s", 0, 3600000, "TIME", LIVE, \
      "SIGTERM: running executions may go on this long, then they are ended")
/* clang-format on */

enum coto_setting {
#define X(id, ...) COTO_SET_##id,
    COTO_SETTINGS(X)
#undef X
        COTO_SET_COUNT
};

struct coto_setting_info {
    const char *name;
    enum coto_setting_type type;
    const char *def;
    int64_t min, max;
    const char *metavar;
    enum coto_setting_when when;
    const char *help;
};
extern const struct coto_setting_info coto_setting_infos[COTO_SET_COUNT];
