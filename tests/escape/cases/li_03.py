"""LI-03: the program wants to be nicer to itself than to others."""
from escape.harness import escaped
from escape.lib_files import TRY, all_refused, attempts

TITLE = 'nice values and I/O priority'
TRIED = ('nice -5, setpriority for itself, its group, its user and init; real-time I/O class; autogroup; '
         'init made idle while 128 processes spin')
WALLS = ['seccomp', 'capabilities']
SETUP = """
def group(): open('/proc/self/autogroup', 'w').write('-5')
"""
ROWS = {'nice': 'attempt(os.nice, -5)', 'own': 'attempt(os.setpriority, 0, 0, -10)',
        'group': 'attempt(os.setpriority, 1, 0, -10)', 'user': 'attempt(os.setpriority, 2, 0, -10)',
        'init up': 'attempt(os.setpriority, 0, 1, -1)', 'init down': 'attempt(os.setpriority, 0, 1, 19)',
        'init idle': 'attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))',
        'io realtime': 'kernel(251, 1, 0, 1 << 13)', 'io of init': 'kernel(251, 1, 1, 3 << 13)',
        'autogroup': 'attempt(group)'}


# Init has the program's uid, so only the filter keeps it from being slowed down; and should that
# be possible, the supervisor's clock is not in its reach.
SLOW = TRY + """
attempt(os.setpriority, 0, 1, 19)
attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
end = time.monotonic() + 1.2
for _ in range(7): os.fork()
while time.monotonic() < end: pass
os._exit(7)
"""
LIMIT = ['--timeout', '400ms']


def attack(box):
    words = all_refused(attempts(box, ROWS, SETUP), 'CRASH')
    done = box.python(SLOW, flags=LIMIT)
    if done.verdict != 'timeout' or done.seconds > 10:
        escaped('CRASH', f'with init slowed down: {done.verdict} after {done.seconds:.1f} s')
    return f'{words}; with init slowed down the limit holds: {done.json["duration_ms"]:.0f} ms'


def control(box):
    done = box.python(SLOW, flags=LIMIT, without=['timeout'])
    assert done.verdict == 'nonzero' and done.json['duration_ms'] > 1000, done
    found = attempts(box, {'io': ROWS['io of init']}, without=['seccomp', 'landlock'])
    assert found['io'] == 'done', found
    return 'without the limit it runs on; without the filter init\'s I/O priority is set'
