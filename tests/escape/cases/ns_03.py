"""NS-03: the program wants another identity through set-id programs, file capabilities or setuid calls."""
import os
import struct

from escape.harness import Untestable, escaped
from escape.lib_files import TRY, attempts, room

TITLE = 'set-id programs, setresuid, file capabilities'
TRIED = ('a program with set-uid, set-gid and file capabilities shown by a mount; setresuid, setresgid, '
         'setgroups, setfsuid to others; nosuid of every mount')
WALLS = ['no_new_privs', 'mount_namespace', 'capabilities', 'user_namespace']
SHOW = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    printf("%d %d", geteuid(), getegid());
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "CapEff:", 7) == 0)
            printf(" %s", line + 8);
    return 0;
}
"""
DAC_OVERRIDE = 1
IDS = {'setresuid 0': 'attempt(os.setresuid, 0, 0, 0)', 'setresgid 0': 'attempt(os.setresgid, 0, 0, 0)',
       'setuid 65534': 'attempt(os.setuid, 65534)', 'setgid 65534': 'attempt(os.setgid, 65534)',
       'setreuid 1': 'attempt(os.setreuid, 1, 1)', 'setgroups 0': 'attempt(os.setgroups, [0])',
       'initgroups': "attempt(os.initgroups, 'root', 0)"}
MOUNTS = TRY + """
found = [l.split()[4] for l in open('/proc/self/mountinfo') if 'nosuid' not in l.split()[5].split(',')]
print(json.dumps(found))
"""


def plant(box, folder):
    """The strongest set-id program this caller can make."""
    path = folder / 'show'
    with open(box.c(SHOW), 'rb') as source:
        path.write_bytes(source.read())
    path.chmod(0o6755)
    if os.geteuid() == 0 and box.situation in ('root', 'old'):
        # struct vfs_cap_data, revision 2, effective
        caps = struct.pack('<IIIII', 0x02000001, 1 << DAC_OVERRIDE, 0, 0, 0)
        os.setxattr(path, 'security.capability', caps)
    return path


def attack(box):
    words = attempts(box, IDS)
    if 'done' in words.values():
        escaped('ESCAPE', str(words))
    loose = box.inside(MOUNTS)
    if loose:
        escaped('ESCAPE', f'set-id counts on {loose}')
    with room() as folder:
        path = plant(box, folder)
        seen = box.run(['/mnt/show'], flags=['--mount', f'{path}:/mnt/show:ro'], ).text.split()
    if seen != ['10000', '10000', '0' * 16]:
        escaped('ESCAPE', f'the set-id program ran as {seen}')
    return 'all mounts nosuid; ids and capabilities stay as they are'


def control(box):
    if os.geteuid() != 0 or box.situation not in ('root', 'old'):
        raise Untestable('only root can make a program that gives privilege')
    with room() as folder:
        path = plant(box, folder)
        # File capabilities count only where set-id does; the caller's own are lost at execve.
        seen = box.run([f'/{path}'], without=['mount_namespace', 'no_new_privs', 'capabilities', 'seccomp',
                                             'landlock']).text.split()
    assert int(seen[2], 16) == 1 << DAC_OVERRIDE, seen
    return 'a file capability gave CAP_DAC_OVERRIDE'
