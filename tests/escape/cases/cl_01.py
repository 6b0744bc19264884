"""CL-01: the program wants to change the clock."""
from escape.lib_files import all_refused, attempts

TITLE = 'clock'
TRIED = ('settimeofday, clock_settime, adjtimex, clock_adjtime (also to read), a time namespace and its '
         'offsets, the timezone')
WALLS = ['seccomp', 'capabilities', 'landlock']
SETUP = """
cell = (ctypes.c_long * 64)()
offsets = lambda: open('/proc/self/timens_offsets', 'w').write('monotonic 86400 0')
"""
ROWS = {'settimeofday': 'kernel(164, cell, None)', 'timezone': 'kernel(164, None, cell)',
        'clock_settime': 'kernel(227, 0, cell)', 'clock_settime tai': 'kernel(227, 11, cell)',
        'adjtimex': 'kernel(159, cell)', 'clock_adjtime': 'kernel(305, 0, cell)',
        'time namespace': 'kernel(272, 0x80)', 'user and time': 'kernel(272, 0x10000080)',
        'offsets': 'attempt(offsets)', 'localtime': "attempt(os.symlink, 'x', '/etc/localtime2')"}


def attack(box):
    return all_refused(attempts(box, ROWS, SETUP), 'ESCAPE')


def control(box):
    found = attempts(box, {name: ROWS[name] for name in ('adjtimex', 'clock_adjtime', 'user and time')}, SETUP,
                     without=['seccomp'])
    assert set(found.values()) == {'done'}, found
    return 'without the filter: the clock\'s state is read, a time namespace made'
