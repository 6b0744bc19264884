"""SG-01: the program wants to signal init, the supervisor or a process of its caller."""
import json
import os

from escape.harness import ended, escaped, state, victim

TITLE = 'signals to init, supervisor, same-uid host process'
TRIED = ('SIGKILL, SIGSTOP, SIGTERM, SIGSEGV, SIGCHLD and a real-time signal to pid 1, the parent, the host '
         'pids of the supervisor, of coto\'s caller and of a process of the same user')
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
print('ready', flush=True)
others = input().split()
for name in [*sys.argv[2:], *others]:
    pid = os.getppid() if name == 'parent' else int(name)
    out[name] = [attempt(pid, int(n)) for n in sys.argv[1].split(',')]
print(json.dumps(out), flush=True)
"""
NUMBERS = '9,19,15,11,17,40'


def sent(box, numbers, names, supervisor=True, **more):
    """(pid of the supervisor, what was answered, how coto ended)"""
    with box.running(KILL, args=[numbers, *names], flags=['-q'], **more) as it:
        pid = it.process.pid
        it.say(f'{pid if supervisor else ""}\n')
        try:
            told = json.loads(it.line() or '{}')
        except (ValueError, AssertionError):
            told = {}
        return str(pid), told, it.end()


def attack(box):
    with victim() as process:
        others = [str(process.pid), str(os.getpid())]
        pid, told, done = sent(box, NUMBERS, ['1', 'parent', *others])
        alive = state(process.pid)
    if alive not in 'SRD':
        escaped('CRASH', f'the host process is {alive}')
    if done.status != 0 or not told:
        escaped('CRASH', f'the sandbox did not survive: {done}')
    if any(word != 'ESRCH' for name in [pid, *others] for word in told[name]):
        escaped('ESCAPE', f'{told}')
    # Without Landlock the kernel takes a signal to init and drops it.
    return f'init: {told["1"][0]}; supervisor and host pids: ESRCH'


def control(box):
    # One pid and no more: this program can reach every process of the caller's.
    without = ['pid_namespace', 'landlock', 'uid', 'seccomp']
    with victim() as process:
        sent(box, '9', [str(process.pid)], supervisor=False, without=without)
        assert ended(process.pid), 'the host process lives'
    pid, _, done = sent(box, '9', [], without=without)
    box.host.end(box.host.survivors(0.5))
    assert done.status == -9, f'supervisor {pid}: {done}'
    return 'the host process was killed, and the supervisor'
