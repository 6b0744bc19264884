"""NS-02: the program wants to hold more privilege than it should."""
from escape.harness import escaped

TITLE = 'capabilities, no_new_privs, filter, uid, groups'
TRIED = 'all five capability sets, no_new_privs, number of filters, ids and groups in /proc/self/status'
WALLS = ['capabilities', 'no_new_privs', 'seccomp', 'uid']
LOOK = """
import json, os
rows = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
caps = {k: int(rows[k], 16) for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')}
print(json.dumps({'caps': caps, 'nnp': rows['NoNewPrivs'], 'filters': int(rows['Seccomp_filters']),
                  'uids': rows['Uid'].split(), 'groups': os.getgroups()}))
"""


def around(box):
    """Filters that were there before coto: the launcher's of an old kernel."""
    return 1 if box.situation == 'old' else 0


def attack(box):
    seen = box.inside(LOOK)
    if any(seen['caps'].values()):
        escaped('ESCAPE', f"capabilities {seen['caps']}")
    if (seen['nnp'], seen['filters']) != ('1', 1 + around(box)):
        escaped('ESCAPE', f"no_new_privs {seen['nnp']}, {seen['filters']} filters")
    if '0' in seen['uids'] or 0 in seen['groups']:
        escaped('ESCAPE', f"uid {seen['uids']}, groups {seen['groups']}")
    return 'no capability in five sets, no_new_privs, a filter, uid ' + seen['uids'][0]


def control(box):
    seen = box.inside(LOOK, without=['capabilities', 'no_new_privs', 'seccomp', 'landlock'])
    assert seen['caps']['CapEff'] >> 21 & 1, seen
    assert (seen['nnp'], seen['filters']) == ('0', around(box)) or box.situation == 'old', seen
    return 'CAP_SYS_ADMIN, no_new_privs 0, no filter of coto'
