"""NS-04: the program wants capabilities to come back at an execve (CVE-2022-29162, CVE-2022-27650)."""
from escape.harness import escaped

TITLE = 'inheritable and ambient capabilities after exec'
TRIED = ('five sets after two more execve, with a caller that holds inheritable and ambient capabilities, in '
         'every stage of a compiled language, with one capability added back')
WALLS = ['capabilities']
SETS = "grep -h '^Cap' /proc/self/status"
STAGES = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) { return system("grep -h '^Cap' /proc/self/status; env grep -h '^Cap' /proc/self/status"); }
"""


def sets(text):
    return {int(line.split()[1], 16) for line in text.splitlines() if line.startswith('Cap')}


def rich(box, argv, env):
    """coto started with every capability the caller can keep across execve."""
    some = '+chown,+setuid,+net_admin,+sys_admin'
    caps = ['setpriv', f'--inh-caps={some}', f'--ambient-caps={some}'] if box.situation == 'root' else []
    done = box.start_and_wait(caps + argv, env=env)
    assert done.status == 0, done
    return sets(done.out.decode())


def attack(box):
    script = f'{SETS}; env sh -c "{SETS}"'
    seen = {'exec': sets(box.sh(script).text),
            'caller': rich(box, *box.command(['sh', '-c', script])),
            'compiled': sets(box.run(STAGES, 'c').text),
            'added': sets(box.sh(script, flags=['--cap-add', 'chown']).text)}
    wrong = {name: found for name, found in seen.items() if found - ({0} if name != 'added' else {0, 1})}
    if wrong or seen['added'] != {1}:
        escaped('ESCAPE', f'capabilities {wrong or seen}')
    return 'all sets empty after each execve; only what was added stays'


def control(box):
    found = sets(box.sh(f'env sh -c "{SETS}"', without=['capabilities']).text)
    assert any(one >> 21 & 1 for one in found), found
    return 'CAP_SYS_ADMIN is there after two execve'
