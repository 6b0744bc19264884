"""TY-02: the program wants to leave its caller's terminal in another state."""
from escape.harness import escaped
from escape.lib_files import TRY, ptys
from escape.lib_streams import terminal

TITLE = 'terminal modes and window size'
TRIED = ('raw mode, echo off and a window of 65535 x 65535 on 0, 1, 2 and /dev/tty; the same on a pty of its '
         'own; killed by a timeout in between')
WALLS = ['descriptors', 'seccomp']
MODES = TRY + """
import struct, termios, tty
def spoil(fd):
    tty.setraw(fd)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 65535, 65535, 1, 1))
places = [0, 1, 2]
try: places.append(os.open('/dev/tty', os.O_RDWR))
except OSError: pass
out = {}
for fd in places:
    try: spoil(fd); out[fd] = 'done'
    except (OSError, termios.error) as reason: out[fd] = errno.errorcode[reason.args[0]]
import pty
try: master, slave = pty.openpty()
except OSError: out['own'] = 'none'
else: spoil(slave); out['own'] = 'done'
"""
TELL = 'print(json.dumps(out))'
HANG = 'time.sleep(20)'


def spoilt(box, end, flags=(), **more):
    """Whether the terminal is another afterwards."""
    argv, env = box.command(MODES + end, flags=['-q', *ptys(box), *flags], **more)
    with terminal() as it:
        before = it.state()
        status, shown = it.run(argv, env)
        return before != it.state(), status, shown


def attack(box):
    for end, flags, wanted in ((TELL, [], 0), (HANG, ['--timeout', '300ms'], 124)):
        changed, status, shown = spoilt(box, end, flags)
        if changed:
            escaped('WRITE', 'the caller\'s terminal was left changed')
        assert status == wanted, (status, shown)
    told = box.inside(MODES + TELL, flags=ptys(box))
    assert told.pop('own') == ('done' if ptys(box) else 'none') and set(told.values()) == {'ENOTTY'}, told
    return 'ENOTTY on every stream; a pty of its own works; the terminal is as it was'


def control(box):
    changed, status, shown = spoilt(box, TELL, without=['stdio', 'session', 'seccomp', 'landlock'])
    assert changed, (status, shown)
    return 'raw mode and a huge window stayed on the caller\'s terminal'
