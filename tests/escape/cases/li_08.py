"""LI-08: a limit above what coto or its caller allows must not be clipped in silence."""
import resource

from escape.harness import escaped
from escape.lib_files import refusal

TITLE = 'limits above the maximum'
TRIED = ('each bounded option one past its maximum, and "none" where a limit is compulsory; a caller whose '
         'own hard limit is lower than what it asks for')
WALLS = ['nofile', 'disk', 'inodes', 'timeout']
ABOVE = [('--timeout', '86401s'), ('--timeout', 'none'), ('--disk', '1025g'), ('--disk', 'none'), ('--tmp-size', '2t'),
         ('--tmp-size', 'none'), ('--nofile', '1048577'), ('--nofile', 'none'), ('--inodes', '99999999999'),
         ('--inodes', 'none')]


def few():
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


def attack(box):
    ran = []
    for flag, value in ABOVE:
        result = box.sh('true', flags=[flag, value], may_refuse=True)
        if not result.error:
            ran.append(f'{flag} {value}')
        else:
            assert refusal(result, 64, 65) in ('policy', 'usage')
    if ran:
        escaped('ESCAPE', f'accepted: {ran}')
    done = box.sh('ulimit -Hn', flags=['--nofile', '1024'], preexec_fn=few)
    wall = done.json['walls']['nofile']
    if done.text != '512' or wall['value'] != '512':
        escaped('ESCAPE', f'the caller may have 512; the program has {done.text}, the result says {wall}')
    return f'{len(ABOVE)} refused; a caller\'s own lower limit stays and the result tells it'


def control(box):
    done = box.sh('ulimit -Hn', flags=['--nofile', '1024', '--timeout', '86400s', '--disk', '1g'])
    assert done.text == '1024' and done.json['walls']['nofile']['value'] == '1024', done
    return 'the largest values themselves are taken and in force'
