"""LI-01: the program wants higher resource limits, or init to have none left."""
from escape.harness import escaped
from escape.lib_files import TRY

TITLE = 'resource limits'
TRIED = ('raising each of 16 limits, soft and hard, by setrlimit and prlimit; setting init\'s to 0, also with '
         'bits above 32; artifacts afterwards')
WALLS = ['seccomp', 'capabilities', 'nofile']
RAISE = TRY + """
import resource
out = {}
FREE = 2 ** 64 - 1
for what in range(16):
    soft, hard = (value if value >= 0 else FREE for value in resource.getrlimit(what))
    if hard == FREE: continue
    pair = (ctypes.c_ulong * 2)(hard + 1, hard + 1)
    out['raise %d' % what] = kernel(160, what, pair)
    out['prlimit %d' % what] = kernel(302, 0, what, pair, None)
for what in range(16):
    zero = (ctypes.c_ulong * 2)(0, 0)
    out['init %d' % what] = kernel(302, 1, what, zero, None)
    out['high %d' % what] = kernel(302, 1 | (1 << 40), what, zero, None)
open('/workspace/output/kept', 'w').write('kept')
print(json.dumps(out), flush=True)
"""


def attack(box):
    done = box.python(RAISE)
    found = done.told()
    allowed = sorted(name for name, word in found.items() if word == 'done')
    if allowed:
        escaped('ESCAPE', f'{allowed}')
    if [one['name'] for one in done.json['artifacts']] != ['kept']:
        escaped('CRASH', f"artifacts: {done.json['artifacts']}")
    return f'{len(found)} attempts refused; artifacts still come out'


def control(box):
    # With no CPU time and no memory left init may not live to tell the end.
    done = box.python(RAISE, without=['seccomp', 'landlock', 'dumpable'])
    lowered = [name for name, word in done.told().items() if name.startswith('init') and word == 'done']
    assert len(lowered) == 16, done
    return f'all 16 limits of init set to 0: {done.verdict}, {len(done.json["artifacts"])} artifacts'
