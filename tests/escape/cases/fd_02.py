"""FD-02: the program wants to rewrite the caller's log through its own stdout."""
import json
import os

from escape.harness import escaped
from escape.lib_files import TRY, room

TITLE = 'stdio opened again with other modes'
TRIED = ('stdout and stderr are log files of the caller: truncate, seek, re-open by /proc/self/fd for '
         'reading and writing, take output back, turn on non-blocking and packet modes')
WALLS = ['descriptors']
TAMPER = TRY + """
out = {}
for n in (1, 2):
    path = '/proc/self/fd/%d' % n
    out['seek %d' % n] = attempt(os.lseek, n, 0, 0)
    out['truncate %d' % n] = attempt(os.ftruncate, n, 0)
    out['open %d' % n] = attempt(os.open, path, os.O_RDWR | os.O_TRUNC)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        out['read %d' % n] = os.pread(fd, 100, 0).decode()
    except OSError as reason:
        out['read %d' % n] = errno.errorcode[reason.errno]
print(json.dumps(out))
"""
# What was announced to the supervisor is gone when it reads.
THIEF = """
import fcntl, os
back = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)
fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_NONBLOCK | os.O_DIRECT)
fcntl.fcntl(1, 1031, 4096)
while True:
    try: os.write(1, b'abcd')
    except BlockingIOError: pass
    try: os.read(back, 4096)
    except BlockingIOError: pass
"""

# The supervisor's pipes travel in sockets that hold each other: no end of file.
CYCLE = """
import array, os, socket
a, b = socket.socketpair()
for one in (a, b):
    one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, 2, a.fileno(), b.fileno()]))])
os._exit(3)
"""


def logged(box, **more):
    """What the program told, and what stands in the two logs afterwards."""
    with room() as folder:
        logs = [folder / 'out', folder / 'err']
        for log in logs:
            log.write_text('SECRET of before\n')
            log.chmod(0o666)
        fds = [os.open(log, os.O_RDWR | os.O_APPEND) for log in logs]
        try:
            box.plain(TAMPER, stdout=fds[0], stderr=fds[1], **more)
        finally:
            for fd in fds:
                os.close(fd)
        return [log.read_text() for log in logs]


def attack(box):
    out, err = logged(box)
    if not out.startswith('SECRET of before\n{') or err != 'SECRET of before\n':
        escaped('WRITE', f'the logs are now {out[:60]!r} and {err[:60]!r}')
    told = json.loads(out.splitlines()[1])
    if any('SECRET' in word for word in told.values()):
        escaped('READ', 'the program read the log')
    done = box.plain(THIEF, flags=['--timeout', '500ms'], timeout=30)
    if done.status != 124 or done.seconds > 10:
        escaped('CRASH', f'output taken back: {done}')
    done = box.python(CYCLE)
    if done.code != 3 or done.seconds > 10:
        escaped('CRASH', f'stdio in a cycle of sockets: {done}')
    names = box.sh('echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin', stdin=b'in')
    assert (names.out, names.err) == (b'out\nin', b'err\n'), names
    return 'pipes: no seek, no truncation of what was before; taking output back stalls nobody'


def control(box):
    out, err = logged(box, without=['stdio', 'landlock', 'seccomp', 'uid', 'mount_namespace'])
    assert not err.startswith('SECRET'), (out, err)
    return 'the caller\'s log is empty'
