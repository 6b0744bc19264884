/* A hash secret for each copy.
 *
 * Python hashes texts with a secret that it draws when it starts; it keeps the hash in the text, and the
 * text's place in every table that has it. A copy that just drew another secret would find nothing
 * of what was imported again, and to hash all of that anew would write to, and so copy, the whole heap.
 *
 * So the template remembers every hash it has handed out, and in a copy all texts but those are hashed
 * with a secret of the copy's own. Those are names of the library's, which are no secret and go on being
 * found; what a program brings, a password or the keys of a request, is hashed as in no other copy, and
 * who knows the template's secret cannot say what collides there.
 *
 * The interpreter asks with its lock held.
 */
#include "template/python.h"
#include "template/template.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECRET 24 /* bytes: the keys of siphash or fnv, and expat's */
#define SLOTS_AT_FIRST ((size_t)1 << 15)

typedef long (*hash_function)(const void *data, ptrdiff_t size);

static hash_function usual;
static unsigned char *secret; /* the interpreter's: what `usual` hashes with */
static unsigned char first[SECRET]; /* the template's, in a copy */
static bool is_copy;
static bool is_asked; /* it has not only been told, it does ask */
static bool has_lost; /* a hash that there was no memory to remember */
static struct {
    uint64_t *slots; /* 0: none; only read in a copy */
    size_t size, used;
} known;

static uint64_t *slot_of(uint64_t *slots, size_t size, uint64_t hash)
{
    size_t i = hash & (size - 1);

    while (slots[i] && slots[i] != hash)
        i = (i + 1) & (size - 1);
    return &slots[i];
}

static void move_to(uint64_t *slots, size_t size)
{
    for (size_t i = 0; i < known.size; i++)
        if (known.slots[i])
            *slot_of(slots, size, known.slots[i]) = known.slots[i];
    if (known.size)
        munmap(known.slots, known.size * sizeof known.slots[0]);
    known.slots = slots;
    known.size = size;
}

static void remember(uint64_t hash)
{
    if (known.used >= known.size / 2) {
        size_t size = known.size ? 2 * known.size : SLOTS_AT_FIRST;
        void *data = mmap(NULL, size * sizeof known.slots[0], PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
            has_lost = true;
            return;
        }
        move_to(data, size);
    }
    uint64_t *slot = slot_of(known.slots, known.size, hash);
    known.used += *slot == 0 && hash != 0;
    *slot = hash;
}

/* As the template would. */
static uint64_t hash_as_first(const void *data, ptrdiff_t size)
{
    unsigned char own[SECRET];

    memcpy(own, secret, SECRET);
    memcpy(secret, first, SECRET);
    uint64_t hash = (uint64_t)usual(data, size);
    memcpy(secret, own, SECRET);
    return hash;
}

static long hash(const void *data, ptrdiff_t size)
{
    if (is_copy) {
        uint64_t old = hash_as_first(data, size);
        return old == 0 || *slot_of(known.slots, known.size, old) ? (long)old : usual(data, size);
    }
    long found = usual(data, size);
    is_asked = true;
    remember((uint64_t)found);
    return found;
}

/* Whether it can be written is for the kernel to say: of a Python that is built in another way it may be
 * among what is read-only once the program is loaded. */
static int replace(struct python_hash *def)
{
    hash_function own = hash;
    struct iovec from = {&own, sizeof own};
    struct iovec to = {(void *)&def->hash, sizeof own};

    return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)sizeof own ? 0 : -1;
}

void template_hash_begin(void)
{
    struct python_hash *(*get)(void);
    void *found = dlsym(RTLD_DEFAULT, "PyHash_GetFuncDef");

    memcpy(&get, &found, sizeof get);
    secret = dlsym(RTLD_DEFAULT, "_Py_HashSecret");
    if (!found || !secret)
        return;
    struct python_hash *def = get();
    usual = def->hash;
    if (replace(def))
        usual = NULL;
}

size_t template_hash_size(void)
{
    return known.size * sizeof known.slots[0];
}

void template_hash_settle(void *space)
{
    if (space)
        move_to(space, known.size);
}

bool template_hash_is_ready(void)
{
    return usual && is_asked && !has_lost;
}

int template_hash_renew(void)
{
    unsigned char own[SECRET];

    if (getrandom(own, sizeof own, 0) != (ssize_t)sizeof own)
        return -1;
    memcpy(first, secret, SECRET);
    memcpy(secret, own, SECRET);
    is_copy = true;
    return 0;
}
