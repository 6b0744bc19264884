"""TY-01: the program wants to type into its caller's terminal (CVE-2017-5226, -2019-10063, -2023-28100)."""
from cli.helpers import read
from escape.harness import Untestable, escaped
from escape.lib_files import TRY, ptys
from escape.lib_streams import terminal

TITLE = 'TIOCSTI and TIOCLINUX'
TRIED = ('TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, plain and with bits above 32, on 0, 1, 2, /dev/tty, '
         '/dev/console and a pty of its own, with coto on a terminal')
WALLS = ['seccomp', 'descriptors']
INJECT = TRY + """
import termios
places = [0, 1, 2]
for name in ('/dev/tty', '/dev/console', '/dev/tty0', '/proc/self/fd/0'):
    try: places.append(os.open(name, os.O_RDWR | os.O_NOCTTY))
    except OSError: pass
try:
    own = os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
    places.append(own)
except OSError: pass
out = []
for fd in places:
    for request in (0x5412, 0x541c, 0x541d, 0x5423):
        for high in (0, 1 << 32, 0x123 << 32, -1 << 32):
            for letter in b'x\\n':
                cell = ctypes.c_char(letter)
                if kernel(16, fd, request | high, ctypes.byref(cell)) == 'done': out.append('%d %x' % (fd, request))
open('/workspace/output/told', 'w').write(json.dumps(sorted(set(out))))
"""


def typed(box, **more):
    """(status, bytes that arrived as typed): the terminal echoes them, and drops what nobody read."""
    argv, env = box.command(INJECT, flags=['-q', *ptys(box)], **more)
    with terminal() as it:
        status, shown = it.run(argv, env)
        return status, len(shown) + it.pending()


def attack(box):
    status, count = typed(box)
    if count:
        escaped('WRITE', f'{count} bytes were typed')
    assert status == 0, status
    told = box.python(INJECT + "print(json.dumps(sorted(set(out))))", flags=ptys(box)).told()
    if told:
        escaped('WRITE', f'allowed: {told}')
    return 'no terminal inside; refused on every descriptor'


def control(box):
    if read('/proc/sys/dev/tty/legacy_tiocsti').strip() != '1':
        raise Untestable('this kernel has TIOCSTI turned off (dev.tty.legacy_tiocsti)')
    status, count = typed(box, without=['stdio', 'session', 'seccomp', 'landlock', 'mount_namespace'])
    assert count, status
    return f'{count} bytes were typed into the caller\'s terminal'
