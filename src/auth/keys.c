/* The keys of a service: a set that is swapped as a whole, and rules for tokens. Whoever verifies
 * holds the set it began with, so a swap never waits and never frees a key in use. */
#include "auth/keyset.h"

#include "base/own.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SKEW_MAX_S COTO_KEYS_SKEW_S

/* What tells that a file was changed or replaced. */
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec written, changed;
};

struct sources {
    struct coto_strv files, names;
    struct stamp *stamps;
};

struct coto_keys {
    pthread_mutex_t lock;   /* of set */
    pthread_mutex_t reload; /* one at a time; of from */
    struct coto_keyset *set;
    struct sources from;
    struct coto_key_rules rules;
    struct coto_key own;
};

/* ---- sets ---- */

static bool is_named(const struct coto_key *key, const char *id)
{
    return *id && (strcmp(key->id, id) == 0 || strcmp(key->name, id) == 0);
}

static int refuse_same(const char *file, const struct coto_key *key, const char *id, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "a %s key is called '%s' in '%s' too", coto_key_alg_name(key->alg), id,
                 file ? file : "this file");
    return coto_err_remedy(err, "name each key once, in one file; of two keys with one name rename a file, or change a kid");
}

int coto_keyset_take(struct coto_keyset *set, struct coto_key *key, struct coto_err *err)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct coto_key *other = &set->items[i];
        if (other->alg == key->alg && (is_named(other, key->id) || is_named(other, key->name)))
            return refuse_same(set->files[i], key, is_named(other, key->id) ? key->id : key->name, err);
    }
    if (set->count == COTO_KEYS_MAX)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "more than %d keys", COTO_KEYS_MAX);
    set->files[set->count] = set->file;
    set->items[set->count++] = *key;
    *key = (struct coto_key){0};
    return 0;
}

void coto_keyset_release(struct coto_keyset *set)
{
    if (!set || atomic_fetch_sub(&set->holders, 1) > 1)
        return;
    for (size_t i = 0; i < set->count; i++)
        coto_key_fini(&set->items[i]);
    pthread_mutex_destroy(&set->known.lock);
    free(set);
}

bool coto_keyset_knows(struct coto_keyset *set, const unsigned char hash[COTO_KEYSET_HASH])
{
    pthread_mutex_lock(&set->known.lock);
    bool known = memcmp(set->known.hashes[hash[0]], hash, COTO_KEYSET_HASH) == 0;
    pthread_mutex_unlock(&set->known.lock);
    return known;
}

void coto_keyset_learn(struct coto_keyset *set, const unsigned char hash[COTO_KEYSET_HASH])
{
    pthread_mutex_lock(&set->known.lock);
    memcpy(set->known.hashes[hash[0]], hash, COTO_KEYSET_HASH);
    pthread_mutex_unlock(&set->known.lock);
}

struct coto_keyset *coto_keys_hold(struct coto_keys *keys)
{
    pthread_mutex_lock(&keys->lock);
    struct coto_keyset *set = keys->set;
    atomic_fetch_add(&set->holders, 1);
    pthread_mutex_unlock(&keys->lock);
    return set;
}

static void swap_set(struct coto_keys *keys, struct coto_keyset *set)
{
    pthread_mutex_lock(&keys->lock);
    struct coto_keyset *old = keys->set;
    keys->set = set;
    pthread_mutex_unlock(&keys->lock);
    coto_keyset_release(old);
}

/* ---- reading ---- */

static struct stamp stamp_of(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return (struct stamp){0};
    return (struct stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim};
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_same(const struct stamp *a, const struct stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           is_same_time(a->written, b->written) && is_same_time(a->changed, b->changed);
}

/* Notes how the files look now; true when that is news. */
static bool note_stamps(struct coto_keys *keys)
{
    bool changed = false;

    for (size_t i = 0; i < keys->from.files.count; i++) {
        struct stamp now = stamp_of(keys->from.files.items[i]);
        changed |= !is_same(&now, &keys->from.stamps[i]);
        keys->from.stamps[i] = now;
    }
    return changed;
}

static int load_set(struct coto_keys *keys, struct coto_err *err)
{
    struct coto_keyset *set = calloc(1, sizeof *set);

    if (!set)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "keys");
    atomic_init(&set->holders, 1);
    pthread_mutex_init(&set->known.lock, NULL);
    for (size_t i = 0; i < keys->from.files.count; i++)
        if (coto_keyset_add_file(set, keys->from.files.items[i], keys->from.names.items[i], err)) {
            coto_keyset_release(set);
            return -1;
        }
    swap_set(keys, set);
    return 0;
}

int coto_keys_reload(struct coto_keys *keys, struct coto_err *err)
{
    pthread_mutex_lock(&keys->reload);
    note_stamps(keys); /* before reading: what is written meanwhile is news next time */
    int failed = load_set(keys, err);
    pthread_mutex_unlock(&keys->reload);
    return failed;
}

int coto_keys_refresh(struct coto_keys *keys, struct coto_err *err)
{
    int result = 0;

    pthread_mutex_lock(&keys->reload);
    if (note_stamps(keys))
        result = load_set(keys, err) ? -1 : 1;
    pthread_mutex_unlock(&keys->reload);
    return result;
}

/* ---- life ---- */

static int copy_rule(char *ret_text, size_t size, const char *text, const char *name,
                     struct coto_err *err)
{
    if (strlen(text) < size) {
        memcpy(ret_text, text, strlen(text) + 1);
        return 0;
    }
    return coto_err_set(err, COTO_ERR_POLICY, 0, "%s: longer than %zu bytes", name, size - 1);
}

static int set_rules(struct coto_keys *keys, const struct coto_keys_config *config,
                     struct coto_err *err)
{
    struct coto_key_rules *rules = &keys->rules;

    if (config->skew_s > SKEW_MAX_S)
        return coto_err_set(err, COTO_ERR_POLICY, 0, "clock skew: at most %d s", SKEW_MAX_S);
    snprintf(rules->signer, sizeof rules->signer, "%s", config->signer ? config->signer : "a key of this service");
    rules->skew_s = config->skew_s < 0 ? SKEW_MAX_S : config->skew_s;
    if (config->aud && !*config->aud)
        return coto_err_set(err, COTO_ERR_POLICY, 0, "audience: empty");
    if (copy_rule(rules->aud, sizeof rules->aud, config->aud ? config->aud : "coto", "audience",
                  err))
        return -1;
    return copy_rule(rules->iss, sizeof rules->iss, config->iss ? config->iss : "", "issuer", err);
}

static void sources_fini(struct sources *from)
{
    coto_strv_fini(&from->files);
    coto_strv_fini(&from->names);
    free(from->stamps);
    from->stamps = NULL;
}

/* On failure the caller ends it all the same. */
static int copy_files(struct sources *to, const char *const *files, const char *const *names,
                      struct coto_err *err)
{
    bool failed = false;

    for (size_t i = 0; files && files[i]; i++)
        failed |= coto_strv_add(&to->files, files[i]) != 0 ||
                  coto_strv_add(&to->names, names ? names[i] : files[i]) != 0;
    to->stamps = calloc(to->files.count + 1, sizeof *to->stamps);
    if (failed || !to->stamps)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "keys");
    return 0;
}

int coto_keys_change(struct coto_keys *keys, const char *const *files, const char *const *names,
                     struct coto_err *err)
{
    struct sources other = {0};
    int failed = copy_files(&other, files, names, err);

    if (!failed) {
        pthread_mutex_lock(&keys->reload);
        struct sources old = keys->from;
        keys->from = other;
        note_stamps(keys);
        failed = load_set(keys, err);
        other = failed ? keys->from : old;
        keys->from = failed ? old : keys->from;
        pthread_mutex_unlock(&keys->reload);
    }
    sources_fini(&other);
    return failed;
}

static int fill(struct coto_keys *keys, const struct coto_keys_config *config,
                struct coto_err *err)
{
    if (set_rules(keys, config, err) || copy_files(&keys->from, config->files, config->names, err) ||
        (config->own ? coto_key_from_secret(config->own, COTO_KEY_SECRET_MIN, &keys->own, err)
                     : coto_key_generate(COTO_KEY_HS256, &keys->own, err)))
        return -1;
    keys->own.is_own = true;
    return coto_keys_reload(keys, err);
}

int coto_keys_new(const struct coto_keys_config *config, struct coto_keys **ret_keys,
                  struct coto_err *err)
{
    struct coto_keys *keys = calloc(1, sizeof *keys);

    if (!keys)
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "keys");
    pthread_mutex_init(&keys->lock, NULL);
    pthread_mutex_init(&keys->reload, NULL);
    if (fill(keys, config, err)) {
        coto_keys_free(keys);
        return -1;
    }
    *ret_keys = keys;
    return 0;
}

void coto_keys_free(struct coto_keys *keys)
{
    if (!keys)
        return;
    coto_keyset_release(keys->set);
    sources_fini(&keys->from);
    coto_key_fini(&keys->own);
    pthread_mutex_destroy(&keys->lock);
    pthread_mutex_destroy(&keys->reload);
    free(keys);
}

size_t coto_keys_count(struct coto_keys *keys)
{
    struct coto_keyset *set = coto_keys_hold(keys);
    size_t count = set->count;

    coto_keyset_release(set);
    return count;
}

const struct coto_key *coto_keys_own(const struct coto_keys *keys)
{
    return &keys->own;
}

const struct coto_key_rules *coto_keys_rules(const struct coto_keys *keys)
{
    return &keys->rules;
}
