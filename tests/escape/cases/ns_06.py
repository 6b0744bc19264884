"""NS-06: the program wants to raise limits on namespaces again."""
from escape.lib_files import all_done, all_refused, attempts

TITLE = 'limits on namespaces raised from inside'
TRIED = ('writing to /proc/sys/user/max_*_namespaces, max_inotify_*, by open, truncate and chmod, also '
         'through /proc/1/root')
WALLS = ['landlock', 'capabilities', 'mount_namespace']
NAMES = ['max_user_namespaces', 'max_mnt_namespaces', 'max_pid_namespaces', 'max_net_namespaces',
         'max_inotify_instances', 'max_inotify_watches']
WRITE = """
def put(path):
    with open(path, 'w') as file: file.write('16384')
"""


def attack(box):
    rows = {}
    for name in NAMES:
        for path in (f'/proc/sys/user/{name}', f'/proc/1/root/proc/sys/user/{name}'):
            rows[f'write {path}'] = f'attempt(put, {path!r})'
        rows[f'truncate {name}'] = f"attempt(os.truncate, '/proc/sys/user/{name}', 0)"
        rows[f'chmod {name}'] = f"attempt(os.chmod, '/proc/sys/user/{name}', 0o666)"
    return all_refused(attempts(box, rows, WRITE), 'ESCAPE')


def control(box):
    rows = {name: f"attempt(put, '/proc/sys/user/{name}')" for name in NAMES}
    found = attempts(box, rows, WRITE, without=['proc_masks', 'root_read_only', 'capabilities', 'landlock', 'seccomp'])
    return all_done(found) + ': limits raised'
