"""SG-04: whatever kills init or everything around it, the run ends with a right verdict."""
from escape.harness import escaped

TITLE = 'init killed from inside'
TRIED = 'SIGKILL to every process from several at once, memory exhausted by children, SIGKILL to init'
WALLS = ['pid_namespace', 'memory']
KILL_ALL = """
import os, signal
for _ in range(5): os.fork()
try: os.kill(-1, signal.SIGKILL)
except OSError: pass
os._exit(6)
"""
EAT = """
import os
for _ in range(4):
    if os.fork() == 0:
        keep = [bytearray(16 << 20) for _ in range(64)]
        os._exit(0)
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(4)]
os._exit(9 if any(codes) else 0)
"""
PARENT = "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(0.2)"


def attack(box):
    killed = box.python(KILL_ALL)
    if killed.verdict not in ('nonzero', 'signal') or killed.status not in (6, 137):
        escaped('CRASH', f'kill all: {killed}')
    eaten = box.python(EAT, flags=['--memory', '64m'])
    if eaten.verdict not in ('oom', 'nonzero'):
        escaped('CRASH', f'memory: {eaten}')
    mine = box.python(PARENT)
    if mine.verdict == 'lost':
        escaped('CRASH', 'init was killed from inside')
    left = box.host.added()
    if left:
        escaped('ESCAPE', f'left: {left}')
    return f'kill all: {killed.verdict}; memory: {eaten.verdict}; init lives; nothing left'


def control(box):
    done = box.python(PARENT, without=['pid_namespace', 'landlock', 'seccomp'])
    assert done.verdict == 'lost', done
    return 'init was killed; the verdict says lost'
