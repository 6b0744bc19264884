"""PR-02: threads count as tasks."""
from escape.harness import escaped

TITLE = 'thread bomb'
TRIED = '600 threads that stay, with the default limit of 128 tasks'
WALLS = ['pids']
CONTROL = "option"
THREADS = r"""
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *rest(void *arg) { pause(); return arg; }
int main(void)
{
    pthread_attr_t small;
    pthread_t id;
    int made = 0, why = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    while (made < 600 && (why = pthread_create(&id, &small, rest, NULL)) == 0)
        made++;
    printf("%d %d\n", made, why);
    fflush(stdout);
    _exit(0);
}
"""


def attack(box):
    made, why = map(int, box.run([box.c(THREADS)]).text.split())
    if why != 11 or made > 128:
        escaped('CRASH', f'{made} threads, errno {why}')
    return f'EAGAIN after {made} threads'


def control(box):
    made, _ = map(int, box.run([box.c(THREADS)], flags=['--pids', '700']).text.split())
    assert made == 600, made
    return 'with a limit of 700 all 600 are made'
