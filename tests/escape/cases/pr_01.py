"""PR-01: a fork bomb must stop at the limit and harm nobody else."""
from escape.harness import escaped

TITLE = 'fork bomb'
TRIED = ('400 forks that stay, with a limit of 64; then by children of children; a neighbour and the host '
         'fork meanwhile')
WALLS = ['pids']
CONTROL = "option"
BOMB = """
import errno, os, sys
made, why = 0, 0
for _ in range(400):
    try:
        if os.fork() == 0:
            try: os.fork()
            except OSError: pass
            sys.stdin.readline(); os._exit(0)
        made += 1
    except OSError as reason:
        why = reason.errno; break
alive = len([p for p in os.listdir('/proc') if p.isdigit()]) - 1
os.write(1, b'ready\\n%d %d %d\\n' % (made, why, alive))
sys.stdin.readline()
"""


def attack(box):
    before = box.host.load()
    with box.running(BOMB, flags=['--pids', '64']) as it:
        made, why, alive = map(int, it.line().split())
        if why != 11 or alive > 64:
            escaped('CRASH', f'{made} forks, {alive} alive, errno {why}')
        neighbour = box.sh('true & true & wait; echo fine')
        if neighbour.text != 'fine':
            escaped('CRASH', f'a neighbour could not fork: {neighbour}')
        after = box.host.load()
    assert after < before * 20 + 1, (before, after)
    return f'EAGAIN with {alive} of 64 alive; a neighbour and the host fork on'


def control(box):
    with box.running(BOMB, flags=['--pids', '900']) as it:
        made, why, alive = map(int, it.line(60).split())
    assert (made, why) == (400, 0) and alive > 400, (made, why, alive)
    return f'with a limit of 900 all 400 are made, {alive} alive'
