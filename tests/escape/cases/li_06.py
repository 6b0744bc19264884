"""LI-06: the program wants to lift its limits in the cgroup files."""
import os

from cli.helpers import cgroups_of
from escape.harness import Untestable, escaped
from escape.lib_files import TRY

TITLE = 'cgroup files'
TRIED = ('finding a cgroup file system by mountinfo, /sys/fs/cgroup and /proc/*/root; mounting one; writing '
         'memory, pids and cpu limits, cgroup.procs and release_agent')
WALLS = ['mount_namespace', 'cgroup_namespace', 'landlock', 'seccomp', 'uid']
HUNT = TRY + """
found, written = [], []
for line in open('/proc/self/mountinfo'):
    if ' - cgroup' in line: found.append(line.split()[4])
for place in ('/sys/fs/cgroup', '/proc/1/root/sys/fs/cgroup', '/proc/self/root/sys/fs/cgroup'):
    if os.path.isdir(place) and os.listdir(place): found.append(place)
for kind in (b'cgroup', b'cgroup2'):
    if kernel(165, b'none', b'/tmp', kind, 0, b'memory' if kind == b'cgroup' else None) == 'done': found.append('mounted')
for top in list(found):
    for folder, _, names in os.walk(top):
        for name in ('memory.limit_in_bytes', 'memory.max', 'pids.max', 'cgroup.procs', 'tasks', 'release_agent'):
            if name in names and attempt(open, os.path.join(folder, name), 'w') == 'done':
                written.append(os.path.join(folder, name))
print(json.dumps([found, written[:5]]))
"""


def attack(box):
    found, written = box.inside(HUNT)
    if written:
        escaped('ESCAPE', f'writable: {written}')
    if found:
        escaped('READ', f'cgroup file systems: {found}')
    with box.running(['sh', '-c', 'echo ready; read line']) as it:
        places = {str(path) for path in cgroups_of(it.program()).values() if path.name.startswith('coto-')}
        loose = [path for path in places if os.stat(path).st_uid not in (0, os.geteuid())]
    if loose:
        escaped('ESCAPE', f'the sandbox owns {loose}')
    return 'no cgroup file system in sight, none can be mounted; the directories belong to the caller'


def control(box):
    if not os.path.isdir('/sys/fs/cgroup') or not os.listdir('/sys/fs/cgroup'):
        raise Untestable('this host shows no cgroup file system')
    down = ['mount_namespace', 'landlock', 'seccomp', 'uid', 'root_read_only', 'cgroup_namespace']
    found, written = box.inside(HUNT, without=down)
    assert found, 'nothing found'
    if os.geteuid() == 0 and box.situation in ('root', 'old'):
        assert written, found
        return f'{len(found)} file systems in sight, limits writable'
    return f'{len(found)} cgroup file systems in sight'
