"""NS-09: two sandboxes must not share a host uid, or the result must say so."""
from cli.helpers import status_of
from escape.harness import escaped

TITLE = 'host uids of two sandboxes'
TRIED = 'two sandboxes at once; the uids of their programs as the host sees them'
WALLS = ['unique_uid', 'uid']
WAIT = ['sh', '-c', 'echo ready; read line']


def uids(box, **more):
    with box.running(WAIT, **more) as one, box.running(WAIT, **more) as two:
        return [status_of(it.program())['Uid'].split()[0] for it in (one, two)]


def attack(box):
    missing = [wall['wall'] if isinstance(wall, dict) else wall for wall in box.sh('true').json['missing_walls']]
    one, two = uids(box)
    if '0' in (one, two):
        escaped('ESCAPE', 'a program runs as the host\'s root')
    if one != two:
        return f'{one} and {two}'
    if 'unique_uid' not in missing:
        escaped('ESCAPE', f'both are {one} and the result does not say so')
    return 'the same, and the result names unique_uid as missing'


def control(box):
    one, two = uids(box, without=['uid'])
    assert one == two, (one, two)
    return f'both have the caller\'s own uid {one}'
