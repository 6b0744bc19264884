"""FD-05: the program uses up descriptors; only it may suffer."""
from escape.harness import escaped
from cli.helpers import WAITER

TITLE = 'descriptor exhaustion'
TRIED = ('open /dev/null until it fails, in 20 processes at once, while a second sandbox starts and the host '
         'opens files')
WALLS = ['nofile']
HOG = """
import os, sys
def fill():
    n = 0
    try:
        while n < 5000: os.open('/dev/null', 0); n += 1
    except OSError as reason: return n, reason.errno
    return n, 0
for _ in range(19):
    if os.fork() == 0:
        fill(); sys.stdin.readline(); os._exit(0)
n, why = fill()
os.write(1, b'ready\\n%d %d\\n' % (n, why))
sys.stdin.readline()
"""


def attack(box):
    with box.running(HOG) as it:
        count, why = map(int, it.line().split())
        if why != 24 or count > 1024:
            escaped('CRASH', f'{count} descriptors, errno {why}')
        neighbour = box.run(WAITER, stdin=b'\n')
        if neighbour.verdict != 'ok':
            escaped('CRASH', f'a second sandbox: {neighbour}')
        with open('/etc/passwd', encoding='utf-8'):
            pass
    return f'EMFILE after {count}; host and neighbour go on'


def control(box):
    limit = 2048
    with box.running(HOG, without=['rlimits']) as it:
        free, _ = map(int, it.line().split())
    with box.running(HOG, flags=['--nofile', limit]) as it:
        count, _ = map(int, it.line().split())
    assert count > 1024 and free > 1024, (count, free)
    return f'{count} with a limit of {limit}, {free} without one'
