"""PR-03: orphans must not stay as zombies and eat the process limit."""
from escape.harness import escaped

TITLE = 'orphan zombies'
TRIED = '500 grandchildren orphaned and ended, with a limit of 128 processes; then what /proc lists'
WALLS = ['pids', 'pid_namespace']
ORPHANS = """
import os, time
def states():
    found = []
    for p in os.listdir('/proc'):
        try: found += [open('/proc/%s/stat' % p).read().rsplit(')', 1)[1].split()[0]] if p.isdigit() else []
        except OSError: pass
    return found
def make(count):
    for n in range(count):
        if os.fork() == 0:
            if os.fork() == 0: os._exit(0)
            os._exit(0)
        os.wait()
"""
COUNT = """
make(500)
end = time.monotonic() + 5
seen = states()
while ('Z' in seen or len(seen) > 2) and time.monotonic() < end: # orphans that live still, besides init and this
    time.sleep(0.01)
    seen = states()
print(seen.count('Z'))
"""
# A parent that takes orphans and never waits for them, as a careless PID 1 would.
CARELESS = """
import ctypes
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
def wait_for(pid): os.waitpid(pid, 0)
for n in range(100):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    wait_for(pid)
time.sleep(0.1)
print(states().count('Z'))
"""


def attack(box):
    done = box.python(ORPHANS + COUNT)
    if done.verdict != 'ok' or done.text != '0':
        escaped('CRASH', f'zombies: {done}')
    return '500 orphans reaped by init'


def control(box):
    done = box.python(ORPHANS + CARELESS)
    assert int(done.text) > 90, done
    return f'{done.text} zombies under a parent that does not wait'
