"""FD-03: the program wants an open file handed to it over a socket it inherited."""
import array
import socket

from escape.harness import escaped
from escape.lib_files import room, secret

TITLE = 'descriptors by SCM_RIGHTS'
TRIED = ('recvmsg with ancillary data on every descriptor 0 to 255; a caller\'s socket has an open secret '
         'waiting')
WALLS = ['descriptors']
TAKE = """
import array, json, os, socket
found = []
for n in range(256):
    try:
        one = socket.socket(fileno=os.dup(n))
        one.setblocking(False)
        _, ancillary, _, _ = one.recvmsg(64, socket.CMSG_SPACE(64))
        for _, _, data in ancillary:
            fds = array.array('i'); fds.frombytes(data[:len(data) - len(data) % 4])
            found += [os.pread(fd, 100, 0).decode() for fd in fds]
    except OSError: pass
print(json.dumps(found))
"""


def taken(box, **more):
    with room() as folder, open(secret(folder / 'secret'), encoding='utf-8') as file:
        one, two = socket.socketpair()
        with one, two:
            rights = array.array('i', [file.fileno()])
            one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            return box.inside(TAKE, pass_fds=(two.fileno(),), **more)


def attack(box):
    found = taken(box)
    if found:
        escaped('READ', f'received {found}')
    return 'no socket among the descriptors'


def control(box):
    found = taken(box, without=['fds'])
    assert any('canary' in text for text in found), found
    return 'the secret was received and read'
