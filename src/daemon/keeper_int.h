/* The keeper, shared by the files it is made of. */
#pragma once

#include "auth/keys.h"
#include "daemon/ceiling.h"
#include "daemon/files.h"
#include "daemon/keeper.h"
#include "daemon/place.h"
#include "daemon/pulse.h"
#include "kernel/self.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define COTO_KEEPER_TOLD sizeof(((struct coto_err *)NULL)->text)

struct keeper {
    struct coto_settings *settings;
    struct coto_place place;
    struct coto_files files;
    char told_certificates[COTO_KEEPER_TOLD], told_keys[COTO_KEEPER_TOLD]; /* why those there are were refused; "": they were not */
    unsigned uid, gid; /* of the front */
    int signal_fd, talk_fd;
    int launch_fd; /* our channel to the launcher */
    pid_t front, launcher; /* 0: does not run */
    struct coto_pulse pulse;
    unsigned launchers;    /* started so far */
    struct coto_self self; /* our own walls, as the kernel confirms them */
    bool was_ready, stopping;
    int status;
    int64_t kill_us;                  /* when what still ends is killed; 0: not */
    int64_t retry_us;                 /* nothing is started before */
    int64_t sweep_us, sweep_until_us; /* of cgroups that a killed launcher left; 0: none */
    int64_t look_us;                  /* when key files are looked at again; 0: there are none */
    struct coto_policy ceiling;
    struct coto_ceiling_walls walls;
    unsigned char secret[COTO_KEY_SECRET_MIN];
    unsigned crashes;
    int64_t crashes_since_us;
};

/* keeper.c: a line of the log. */
void keeper_say(const char *what, const char *rest);

/* reload.c */
void keeper_reload(struct keeper *k); /* SIGHUP */
void keeper_watch_files(struct keeper *k);
void keeper_look_at_files(struct keeper *k, int64_t now); /* look_us has come */
void keeper_warn_of_time(const struct keeper *k);
