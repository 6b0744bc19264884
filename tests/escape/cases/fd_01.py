"""FD-01: the program wants descriptors that its caller left open."""
import os
import socket

from escape.harness import escaped

TITLE = 'descriptors of the caller'
TRIED = ('every entry of /proc/self/fd, with a caller that holds a file, a directory, sockets and 40 pipes '
         'open for inheritance')
WALLS = ['descriptors']
LOOK = """
import json, os
found = {}
for n in os.listdir('/proc/self/fd'):
    try: found[n] = os.readlink('/proc/self/fd/' + n)
    except OSError: pass  # the listing's own
print(json.dumps(found))
"""


def seen(box, **more):
    one, two = socket.socketpair()
    pipes = [end for _ in range(20) for end in os.pipe()]
    folder = os.open('/', os.O_RDONLY | os.O_DIRECTORY)
    try:
        with one, two, open('/etc/passwd', encoding='utf-8') as file:
            fds = (one.fileno(), two.fileno(), file.fileno(), folder, *pipes)
            return box.inside(LOOK, pass_fds=fds, **more)
    finally:
        for fd in (folder, *pipes):
            os.close(fd)


def attack(box):
    found = seen(box)
    others = {n: name for n, name in found.items() if n not in '012' or not name.startswith('pipe:')}
    if others or len(found) != 3:
        escaped('READ', f'open inside: {others}')
    return '0, 1, 2, all pipes'


def control(box):
    found = seen(box, without=['fds'])
    assert '/' in found.values() and len(found) > 40, found
    return f"{len(found)} open, among them the host's root and /etc/passwd"
