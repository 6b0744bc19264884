"""SG-01: the program wants to signal init, the supervisor or a process of its caller."""
import os

from escape.harness import ended, escaped, state, victim

TITLE = 'signals to init, supervisor, same-uid host process'
TRIED = ('SIGKILL, SIGSTOP, SIGTERM, SIGSEGV, SIGCHLD and a real-time signal to pid 1, the parent, the host '
         'pids of coto\'s caller and of a process of the same user')
WALLS = ['pid_namespace', 'landlock']
KILL = """
import errno, json, os, signal, sys
def attempt(pid, number):
    try:
        os.kill(pid, number)
        return 'sent'
    except OSError as reason:
        return errno.errorcode[reason.errno]
out = {}
for name in sys.argv[2:]:
    pid = os.getppid() if name == 'parent' else int(name)
    out[name] = [attempt(pid, int(n)) for n in sys.argv[1].split(',')]
print(json.dumps(out))
"""
NUMBERS = '9,19,15,11,17,40'


def attack(box):
    with victim() as process:
        others = [str(process.pid), str(os.getpid())]
        result = box.python(KILL, args=[NUMBERS, '1', 'parent', *others])
        alive = state(process.pid)
    if alive not in 'SRD':
        escaped('CRASH', f'the host process is {alive}')
    if result.verdict != 'ok':
        escaped('CRASH', f'the sandbox did not survive: {result}')
    told = result.told()
    if any(word != 'ESRCH' for name in others for word in told[name]):
        escaped('ESCAPE', f'{told}')
    # Without Landlock the kernel takes a signal to init and drops it.
    return f'init: {told["1"][0]}; host pids: ESRCH'


def control(box):
    # One pid and no more: this program can reach every process of the caller's.
    with victim() as process:
        result = box.python(KILL, args=['9', process.pid], without=['pid_namespace', 'landlock', 'uid', 'seccomp'])
        assert ended(process.pid), result
    return 'the host process was killed'
