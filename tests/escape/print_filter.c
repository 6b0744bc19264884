/* print_filter TIER EXTRAS: the compiled system-call filter of a tier, one instruction
 * a line (code jt jf k), and its hash on the first line. */
#include "kernel/seccomp.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static struct coto_seccomp_program program;
    struct coto_err err = {0};

    if (argc != 3 || coto_seccomp_build(atoi(argv[1]), (unsigned)atoi(argv[2]), &program, &err))
        return 1;
    printf("%s\n", program.hash);
    for (int i = 0; i < program.len; i++)
        printf("%u %u %u %u\n", program.code[i].code, program.code[i].jt, program.code[i].jf,
               program.code[i].k);
    return 0;
}
