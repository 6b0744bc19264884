"""LI-04: the program wants others to be killed first when memory is out."""
from cli.helpers import read
from escape.harness import escaped
from escape.lib_files import attempts

TITLE = 'OOM score'
TRIED = ('oom_score_adj and oom_adj of itself, of a child and of init set to -1000 and 0; its value as the '
         'host sees it')
WALLS = ['landlock', 'mount_namespace', 'capabilities']
SETUP = """
def put(pid, value, name='oom_score_adj'): open('/proc/%s/%s' % (pid, name), 'w').write(value)
"""
ROWS = {f'{name} {pid} {value}': f'attempt(put, {pid!r}, {value!r}, {name!r})'
        for name in ('oom_score_adj', 'oom_adj') for pid in ('self', '1', 'thread-self') for value in ('-1000', '0', '-1')}


def attack(box):
    found = attempts(box, ROWS, SETUP)
    if 'done' in found.values():
        escaped('CRASH', str({name for name, word in found.items() if word == 'done'}))
    with box.running(['sh', '-c', 'echo ready; read line']) as it:
        scores = {read(f'/proc/{pid}/oom_score_adj').strip() for pid in (it.program(), it.init())}
    if scores != {'1000'}:
        escaped('CRASH', f'scores {scores}')
    return 'refused; program and init are the first to go (1000)'


def control(box):
    found = attempts(box, {'score': "attempt(put, 'self', '999')"}, SETUP,
                     without=['proc_masks', 'root_read_only', 'landlock', 'seccomp', 'dumpable', 'capabilities'])
    assert found['score'] == 'done', found
    return 'with /proc writable the score is lowered'
