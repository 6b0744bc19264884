"""SG-01: the program wants to signal init, the supervisor or a process of its caller."""
import os

from escape.harness import escaped, state, victim

TITLE = 'signals to init, supervisor, same-uid host process'
TRIED = 'SIGKILL to pid 1, to the parent, to the host pids of coto and of a process of the caller'
WALLS = ['pid_namespace', 'landlock']
KILL = """
import os, json, sys, signal
def attempt(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return 'sent'
    except OSError as e:
        return e.strerror
targets = [os.getppid() if a == 'parent' else int(a) for a in sys.argv[1:]]
print(json.dumps([attempt(pid) for pid in targets]))
"""


def attack(box):
    with victim() as process:
        result = box.python(KILL, args=[1, 'parent', process.pid, os.getpid()])
        alive = state(process.pid)
    if alive == 'gone' or alive == 'Z':
        escaped('CRASH', 'a process of the host was killed')
    assert result.verdict == 'ok', result
    # A signal to init is taken by the kernel and ignored: its sandbox goes on.
    told = result.told()
    assert told[2] == told[3] == 'No such process', told
    return 'host pids do not exist inside; init ignores it'


def control(box):
    # Only the one pid: this one can reach every process of the caller's.
    with victim() as process:
        result = box.python(KILL, args=[process.pid],
                            without=['pid_namespace', 'landlock', 'uid', 'seccomp'])
        alive = state(process.pid)
    assert alive in ('gone', 'Z'), result
    return 'the host process was killed'
