/* coto-init's own allocator, under other names. */
#define malloc own_malloc
#define free own_free
#define calloc own_calloc
#define realloc own_realloc
void *own_malloc(unsigned long size);
void own_free(void *data);
void *own_calloc(unsigned long count, unsigned long size);
void *own_realloc(void *data, unsigned long size);
#include "../../src/init/alloc.c"
#undef malloc
#undef free
#undef calloc
#undef realloc

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PIECES 3000

struct piece {
    unsigned char *data;
    size_t size;
    unsigned char with;
};

static bool has(const struct piece *piece)
{
    for (size_t i = 0; i < piece->size; i++)
        if (piece->data[i] != piece->with)
            return false;
    return true;
}

static size_t some_size(void)
{
    size_t size = (size_t)1 << random() % 19;

    return (size_t)random() % (2 * size);
}

/* Pieces of all sizes, in any order: none overlaps another, all are aligned. */
static void test_pieces_do_not_overlap(void **state)
{
    static struct piece pieces[PIECES];
    (void)state;

    srandom(1);
    for (int turn = 0; turn < 40000; turn++) {
        struct piece *piece = &pieces[random() % PIECES];
        size_t size = some_size();
        if (piece->data && random() % 3) {
            assert_true(has(piece));
            own_free(piece->data);
            piece->data = NULL;
            continue;
        }
        unsigned char *data = piece->data ? own_realloc(piece->data, size) : own_malloc(size);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % 16, 0);
        for (size_t i = 0; piece->data && i < (size < piece->size ? size : piece->size); i++)
            assert_int_equal(data[i], piece->with);
        *piece = (struct piece){data, size, (unsigned char)random()};
        memset(data, piece->with, size);
    }
    for (int i = 0; i < PIECES; i++) {
        assert_true(!pieces[i].data || has(&pieces[i]));
        own_free(pieces[i].data);
    }
}

static void test_freed_pieces_are_used_again(void **state)
{
    (void)state;
    void *before = own_malloc(100);
    own_free(before);
    for (int i = 0; i < 1000; i++) {
        void *data = own_malloc(100 + (size_t)i % 20);
        assert_ptr_equal(data, before);
        own_free(data);
    }
    for (int i = 0; i < 200; i++) { /* large ones are given back to the kernel */
        void *data = own_malloc(64 << 20);
        assert_non_null(data);
        memset(data, 1, 4096);
        own_free(data);
    }
}

/* An item at a time, as lists do. */
static void test_growing_does_not_copy_each_time(void **state)
{
    unsigned *list = NULL;
    int moved = 0;
    (void)state;

    for (unsigned i = 0; i < 100000; i++) {
        unsigned *larger = own_realloc(list, (i + 1) * sizeof *list);
        moved += larger != list;
        list = larger;
        list[i] = i;
    }
    assert_in_range(moved, 1, 20);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(list[i], i);
    own_free(list);
}

static void test_zeros_and_limits(void **state)
{
    (void)state;
    unsigned char *data = own_malloc(1000);
    memset(data, 0xff, 1000);
    own_free(data);
    data = own_calloc(10, 100);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(data[i], 0);
    own_free(data);
    volatile size_t most = SIZE_MAX; /* or the compiler knows better */
    assert_null(own_calloc(most / 2, 3));
    assert_null(own_malloc(most));
    assert_null(own_malloc(most / 2 - 5000)); /* the kernel has no such room */
    own_free(NULL);
    void *none = own_malloc(0);
    assert_non_null(none);
    own_free(none);
    data = own_realloc(NULL, 10);
    memcpy(data, "123456789", 10);
    assert_null(own_realloc(data, most));
    assert_string_equal((char *)data, "123456789");
    own_free(data);
}

static void free_twice(void)
{
    void *data = own_malloc(40);

    own_free(data);
    own_free(data);
}

static void write_beyond(void)
{
    unsigned char *data = NULL;
    unsigned char *behind = own_malloc(32);

    do { /* until they lie side by side */
        data = behind;
        behind = own_malloc(32);
    } while (behind - data != 32 + 16);
    volatile uintptr_t where = (uintptr_t)data; /* or the compiler knows better */
    memset((void *)where, 0, 48);
    own_free(behind);
}

static void change_the_list(void)
{
    char *one = own_malloc(50);
    char *other = own_malloc(50);
    static char elsewhere[128];
    char *target = elsewhere;

    own_free(one);
    own_free(other);
    memcpy(other, &target, sizeof target); /* after it was freed */
    for (int i = 0; i < 2; i++)
        one = own_malloc(50);
    *one = 0;
}

/* What goes wrong with pieces ends the process, and does not go on. */
static void test_mistakes_end(void **state)
{
    static void (*const mistakes[])(void) = {free_twice, write_beyond, change_the_list};
    (void)state;

    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGABRT, SIG_DFL);
            mistakes[i]();
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_do_not_overlap),
        cmocka_unit_test(test_freed_pieces_are_used_again),
        cmocka_unit_test(test_growing_does_not_copy_each_time),
        cmocka_unit_test(test_zeros_and_limits),
        cmocka_unit_test(test_mistakes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
