"""LI-05: the program wants CPUs it was not given, or to pin init."""
from escape.harness import escaped
from escape.lib_files import TRY

TITLE = 'CPU affinity'
TRIED = 'sched_setaffinity of itself to all CPUs and of init to one'
WALLS = ['seccomp', 'cpus']
PIN = TRY + """
out = {'init': attempt(os.sched_setaffinity, 1, {0})}
out['all'] = attempt(os.sched_setaffinity, 0, range(os.cpu_count()))
print(json.dumps([out, sorted(os.sched_getaffinity(0))]))
"""


def attack(box):
    told, _ = box.inside(PIN)
    if told['init'] == 'done':
        escaped('CRASH', 'init was pinned')
    return f"init: {told['init']}; own affinity is its own to set, the rate is the cgroup's"


def control(box):
    told, _ = box.inside(PIN, without=['seccomp', 'landlock'])
    assert told['init'] == 'done', told
    return 'without the filter init is pinned to one CPU'
