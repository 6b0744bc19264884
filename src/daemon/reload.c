/* Settings and files again, at SIGHUP; files also when they have changed. */
#include "daemon/keeper_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "daemon/notify.h"
#include "daemon/pages.h"
#include "daemon/talk.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOK_US 2000000 /* how often key files are looked at */

/* Of what differs, takes what can be changed now and names the rest. Names of files are taken with the files. */
static void take_settings(struct keeper *k, struct coto_settings *fresh)
{
    for (int i = 0; i < COTO_SET_COUNT; i++) {
        if (coto_settings_same(k->settings, fresh, (enum coto_setting)i))
            continue;
        if (coto_setting_infos[i].when == COTO_SETTING_LIVE)
            coto_settings_swap(k->settings, fresh, (enum coto_setting)i);
        else if (coto_setting_infos[i].when == COTO_SETTING_START)
            keeper_say("reload: a change needs a restart: ", coto_setting_infos[i].name);
    }
}

/* Texts of settings as a file in memory, or -1. */
static int write_texts(const struct keeper *k, enum coto_setting_when when)
{
    coto_auto_fd fd = memfd_create("coto-texts", MFD_CLOEXEC);
    coto_auto_buf pairs = {0};

    coto_settings_add_texts(k->settings, when, &pairs);
    if (fd < 0 || pairs.failed || coto_fd_write_all(fd, coto_buf_str(&pairs), pairs.len) || lseek(fd, 0, SEEK_SET))
        return -1;
    return coto_take_fd(&fd);
}

static int send_settings(struct keeper *k)
{
    struct coto_message message = {.what = COTO_TALK_NUMBERS, .len = sizeof k->settings->num, .fd_count = 1};
    coto_auto_fd lists = write_texts(k, COTO_SETTING_LIVE);

    _Static_assert(sizeof message.data >= sizeof k->settings->num, "a message holds all numbers");
    memcpy(message.data, k->settings->num, message.len);
    message.fds[0] = lists;
    return lists < 0 ? -1 : coto_talk_send(k->talk_fd, &message);
}

static int send_files(struct keeper *k)
{
    struct coto_message message = {.what = COTO_TALK_FILES};
    coto_auto_fd names = write_texts(k, COTO_SETTING_FILE);

    _Static_assert(COTO_TALK_FDS > COTO_FILES_MAX, "a message holds all files");
    message.fds[0] = names;
    message.len = (size_t)coto_files_list(&k->files, message.fds + 1, message.data);
    message.fd_count = (int)message.len + 1;
    return names < 0 ? -1 : coto_talk_send(k->talk_fd, &message);
}

static void tell_refused(struct coto_err *err, const char *what)
{
    coto_err_wrap(err, "reload; %s as before", what);
    coto_keeper_fail(err);
}

/* What has expired is served all the same: other ways in may be of use. */
void keeper_warn_of_time(const struct keeper *k)
{
    struct coto_err err = {0};

    if (coto_files_check_time(k->settings, &err))
        coto_keeper_fail(&err);
}

/* What is no good is tried at each look, and told once for each reason; at SIGHUP always. */
static void tell_refused_once(struct coto_err *err, const char *what, char told[COTO_KEEPER_TOLD], bool is_asked)
{
    if (!is_asked && strcmp(told, err->text) == 0)
        return;
    memcpy(told, err->text, COTO_KEEPER_TOLD);
    tell_refused(err, what);
}

/* Whether all that was tried is taken. */
static bool tell_news(struct keeper *k, unsigned which, bool is_asked, struct coto_files_news *news)
{
    bool refused_certificates = which & COTO_FILES_CERTIFICATES && !news->has_certificates;
    bool refused_keys = which & COTO_FILES_KEYS && !news->has_keys;

    if (refused_certificates)
        tell_refused_once(&news->certificates, "certificates are", k->told_certificates, is_asked);
    else
        *k->told_certificates = '\0';
    if (refused_keys)
        tell_refused_once(&news->keys, "token keys are", k->told_keys, is_asked);
    else
        *k->told_keys = '\0';
    if (!refused_certificates && !refused_keys)
        return true;
    if (news->has_certificates || news->has_crl)
        keeper_say("reload; taken: ", news->has_crl ? "the revocation list" : "certificates");
    if (news->has_keys)
        keeper_say("reload; taken: ", "token keys");
    return false;
}

static const enum coto_setting certificate_names[] = {COTO_SET_TLS_CERTIFICATE, COTO_SET_TLS_KEY, COTO_SET_CLIENT_CA,
                                                      COTO_SET_CLIENT_CRL};
#define CERTIFICATE_NAMES (sizeof certificate_names / sizeof *certificate_names)

/* Says which files are others than before, once they are taken. */
static void take_name(struct keeper *k, struct coto_settings *fresh, enum coto_setting id)
{
    if (coto_settings_same(k->settings, fresh, id))
        return;
    coto_settings_swap(k->settings, fresh, id);
    keeper_say("reload; taken as it is named now: ", coto_setting_infos[id].name);
}

static void take_names(struct keeper *k, struct coto_settings *fresh, const struct coto_files_news *news)
{
    for (size_t i = 0; news->has_certificates && i < CERTIFICATE_NAMES; i++)
        take_name(k, fresh, certificate_names[i]);
    if (news->has_crl)
        take_name(k, fresh, COTO_SET_CLIENT_CRL);
    if (news->has_keys)
        take_name(k, fresh, COTO_SET_JWT_KEY);
}

/* Whether all of these are good. fresh has their names, and may be the settings that there are. */
static bool reload_files(struct keeper *k, unsigned which, bool is_asked, struct coto_settings *fresh)
{
    struct coto_files files;
    struct coto_files_news news;

    coto_files_renew(fresh, which, &k->files, &files, &news);
    take_names(k, fresh, &news);
    coto_files_close(&k->files);
    k->files = files; /* what was refused is there as before */
    bool is_taken = news.has_certificates || news.has_crl || news.has_keys;
    if (is_taken && k->front && send_files(k))
        kill(k->front, SIGKILL); /* the next one starts with them */
    bool all = tell_news(k, which, is_asked, &news);
    if (is_taken || is_asked)
        keeper_warn_of_time(k);
    return all;
}

static void keep_name(struct keeper *k, struct coto_settings *fresh, enum coto_setting id)
{
    struct coto_err err = {0};

    if (coto_settings_same(k->settings, fresh, id))
        return;
    keeper_say("reload: a change needs a restart, what listens needs it until then: ", coto_setting_infos[id].name);
    if (coto_settings_copy(fresh, k->settings, id, &err))
        coto_keeper_fail(&err);
}

/* A socket for others stays open until a restart, also when `listen` was taken out with all that it needs. */
static void keep_needed(struct keeper *k, struct coto_settings *fresh)
{
    if (!coto_place_has_tls(&k->place))
        return;
    bool has_all = *coto_settings_text(fresh, COTO_SET_TLS_CERTIFICATE) && *coto_settings_text(fresh, COTO_SET_TLS_KEY) &&
                   *coto_settings_text(fresh, COTO_SET_CLIENT_CA);
    for (size_t i = 0; !has_all && i < CERTIFICATE_NAMES; i++)
        keep_name(k, fresh, certificate_names[i]);
    if (!fresh->text[COTO_SET_JWT_KEY].count)
        keep_name(k, fresh, COTO_SET_JWT_KEY);
}

void keeper_watch_files(struct keeper *k)
{
    k->look_us = coto_files_any(k->settings) ? coto_clock_us() + LOOK_US : 0;
}

void keeper_reload(struct keeper *k)
{
    struct coto_settings fresh;
    struct coto_err err = {0};

    coto_notify("RELOADING=1");
    if (coto_settings_reload(k->settings, &fresh, &err)) {
        tell_refused(&err, "everything is");
    } else {
        take_settings(k, &fresh);
        if (k->front && send_settings(k))
            kill(k->front, SIGKILL);
        keep_needed(k, &fresh);
        if (reload_files(k, COTO_FILES_ALL, true, &fresh))
            keeper_say("reloaded", "");
        coto_settings_fini(&fresh);
        keeper_watch_files(k);
    }
    coto_notify("READY=1");
    coto_pages_let_go();
}

void keeper_look_at_files(struct keeper *k, int64_t now)
{
    coto_auto_buf names = {0};

    k->look_us = now + LOOK_US;
    unsigned which = coto_files_changed(k->settings, &k->files, &names);
    if (!which)
        *k->told_certificates = *k->told_keys = '\0'; /* put back: what is wrong next is news */
    if (which && reload_files(k, which, false, k->settings))
        keeper_say("key files have changed: ", coto_buf_str(&names));
}
