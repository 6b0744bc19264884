/* For what cannot be undone in the process that does it. Included after cmocka.h. */
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef COTO_COVERAGE
void __gcov_dump(void); /* the counters, which _exit would lose */
#else
#define __gcov_dump() (void)0
#endif

/* Exit status of body in a child; 200 + signal when it died. */
static int in_child(int (*body)(void))
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        int result = body();
        __gcov_dump();
        _exit(result);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}
