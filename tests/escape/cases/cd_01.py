"""CD-01: the program wants a core dump written on the host."""
import os
import resource

from cli.helpers import read
from escape.harness import Untestable, escaped
from escape.lib_files import TRY

TITLE = 'core dumps'
TRIED = ('RLIMIT_CORE raised and lowered by setrlimit and prlimit; abort and a segmentation fault in the '
         'workspace, /tmp and output; core files and the host\'s handler afterwards')
WALLS = ['seccomp']
CRASH = TRY + """
import resource, signal, subprocess
out = {}
for pair in ((1 << 30, 1 << 30), (2 ** 64 - 1, 2 ** 64 - 1), (4096, 4096), (0, 1), (0, 0)) if len(sys.argv) > 1 else ():
    cell = (ctypes.c_ulong * 2)(*pair)
    out['set %d %d' % pair] = kernel(160, 4, cell)
    out['prlimit %d %d' % pair] = kernel(302, 0, 4, cell, None)
dumped = []
for place in ('/workspace', '/workspace/output', '/tmp', '/dev/shm'):
    for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGQUIT):
        pid = os.fork()
        if pid == 0:
            os.chdir(place); os.kill(os.getpid(), number); os._exit(0)
        if os.WCOREDUMP(os.waitpid(pid, 0)[1]): dumped.append(place)
left = [os.path.join(p, n) for p in ('/workspace', '/workspace/output', '/tmp', '/dev/shm') for n in os.listdir(p)
        if n.startswith('core')]
print(json.dumps([out, dumped, left, resource.getrlimit(resource.RLIMIT_CORE)]))
"""


def cores():
    """Core files where the host's pattern would put them."""
    pattern = read('/proc/sys/kernel/core_pattern').strip()
    folder = os.path.dirname(pattern) if pattern.startswith('/') else '.'
    return {name for name in os.listdir(folder) if name.startswith('core')} if os.path.isdir(folder) else set()


def attack(box):
    before = cores()
    out, dumped, left, limit = box.inside(CRASH, args=['change'])
    if dumped or left or cores() - before:
        escaped('WRITE', f'dumped in {dumped}, left {left}, on the host {cores() - before}')
    allowed = [name for name, word in out.items() if word == 'done']
    if allowed:
        escaped('ESCAPE', f'limit changed: {allowed}')
    # The one value with which a handler behind a pipe is not started either.
    if limit != [1, 1] and resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        escaped('WRITE', f'limit {limit}: a core handler on the host would be started')
    return f'limit {limit}, neither raised nor lowered; no core file, no core flag'


def control(box):
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard == 0:
        raise Untestable('the caller itself may not dump core (hard limit 0)')
    out, dumped, left, limit = box.inside(
        CRASH, without=['rlimits', 'seccomp'],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)))
    assert dumped or left, (out, limit)
    return f'{len(dumped)} crashes dumped, {len(left)} core files'
