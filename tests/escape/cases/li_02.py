"""LI-02: the program wants a real-time or deadline scheduler."""
from escape.lib_files import all_refused, attempts

TITLE = 'schedulers'
TRIED = ('FIFO, round robin, deadline and SCHED_EXT by sched_setscheduler and sched_setattr, for itself and '
         'for init; a utilisation clamp')
WALLS = ['seccomp', 'capabilities']
SETUP = """
import struct
def attr(policy, flags=0, priority=0, nice=0):
    return struct.pack('IIQiIQQQII', 56, policy, flags, nice, priority, 10000000, 20000000, 30000000, 0, 1024)
def policy(pid, number, priority): os.sched_setscheduler(pid, number, os.sched_param(priority))
"""
ROWS = {'fifo': 'attempt(policy, 0, 1, 1)', 'rr': 'attempt(policy, 0, 2, 99)', 'fifo of init': 'attempt(policy, 1, 1, 1)',
        'deadline': 'kernel(314, 0, attr(6), 0)',
        'fifo attr': 'kernel(314, 0, attr(1, 0, 50), 0)', 'clamp': 'kernel(314, 0, attr(0, 0x60), 0)',
        'ext': 'kernel(314, 0, attr(7), 0)', 'param of init': 'attempt(os.sched_setparam, 1, os.sched_param(0))'}


def attack(box):
    return all_refused(attempts(box, ROWS, SETUP), 'CRASH')


def control(box):
    found = attempts(box, {'param of init': ROWS['param of init'], 'attr': 'kernel(314, 0, attr(3), 0)'}, SETUP,
                     without=['seccomp', 'landlock'])
    assert set(found.values()) == {'done'}, found
    return 'without the filter sched_setattr works, and init\'s parameters are set'
