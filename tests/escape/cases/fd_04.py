"""FD-04: the program wants to copy a descriptor out of init."""
from escape.harness import Untestable, escaped

TITLE = 'descriptors of init by pidfd_getfd'
TRIED = 'pidfd_open of pid 1, pidfd_getfd of its first 16 descriptors; the same through /proc/1/fd'
WALLS = ['seccomp', 'landlock']
STEAL = """
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    got = libc.syscall(*args)
    return got if got >= 0 else -ctypes.get_errno()
pidfd = call(434, 1, 0)
codes = [call(438, pidfd, n, 0) for n in range(16)] if pidfd >= 0 else [pidfd]
names = []
for n in range(16):
    try: names.append(os.readlink('/proc/1/fd/%d' % n))
    except OSError: pass
print(json.dumps([sum(c >= 0 for c in codes), errno.errorcode.get(-min(codes), ''), names]))
"""


def attack(box):
    count, word, names = box.inside(STEAL)
    if count or names:
        escaped('ESCAPE', f'{count} descriptors of init copied, {names} seen')
    return f'{word}; /proc/1/fd is closed'


def control(box):
    if box.situation == 'old':
        raise Untestable('pidfd_open and pidfd_getfd are masked here')
    count, _, names = box.inside(STEAL, without=['seccomp', 'landlock', 'dumpable'])
    assert count > 3 and names, (count, names)
    return f'{count} descriptors copied: {", ".join(sorted({name.split(":")[0] for name in names}))}'
