"""LI-05: the program wants CPUs it was not given, or to pin init."""
import os

from escape.harness import Untestable, escaped
from escape.lib_calls import HIGH
from escape.lib_files import TRY

TITLE = 'CPU affinity'
TRIED = ('sched_setaffinity of itself, of a thread and by high bits to all CPUs, of itself to the CPU it has, and of '
         'init to one, by a program whose caller is pinned to one CPU; in both tiers that promise it')
WALLS = ['seccomp']
PIN = TRY + f"""
import threading
mask, own = (ctypes.c_ulong * 16)(*[2**64 - 1] * 16), os.sched_getaffinity(0)
out = {{'the same': attempt(os.sched_setaffinity, 0, own),
       'itself': attempt(os.sched_setaffinity, 0, range(os.cpu_count())),
       'its pid': attempt(os.sched_setaffinity, os.getpid(), range(os.cpu_count())),
       'high bits': kernel(203, {HIGH}, 128, mask)}}
thread = threading.Thread(target=lambda: out.update(thread=kernel(203, 0, 128, mask)))
thread.start(); thread.join()
wide = sorted(os.sched_getaffinity(0))
out['init'] = attempt(os.sched_setaffinity, 1, {{min(own)}})
print(json.dumps([out, sorted(own), wide]))
"""


def attack(box):
    with box.pinned() as cpu:
        for tier in ('strict', 'default'):
            told, own, wide = box.inside(PIN, flags=['--seccomp', tier])
            if own != wide or 'done' in told.values():
                escaped('ESCAPE', f'{tier}: {told}, CPUs {own}, then {wide}')
            assert set(told.values()) == {'EPERM'}, told
            assert own == [cpu] or box.level, own  # an engine's containers are not its caller's children
    return f'all {len(told)} EPERM in both tiers; still on CPU {own}'


def control(box):
    with box.pinned() as cpu:
        told, own, wide = box.inside(PIN, without=['seccomp', 'landlock'])
    assert own == [cpu] and set(told.values()) == {'done'}, (told, own)
    if len(os.sched_getaffinity(0)) == 1:
        raise Untestable('one CPU: there is nothing to widen')
    assert len(wide) > 1, wide
    return f'all {len(told)} done: from CPU {own} to {wide}, init pinned'
