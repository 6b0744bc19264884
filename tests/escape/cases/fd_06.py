"""FD-06: the program closes its streams and puts files in their place."""
from escape.harness import escaped

TITLE = 'streams closed and replaced'
TRIED = 'close 0, 1, 2; open files, /proc/self/status, a FIFO and a socket as 0 to 2; print to them; exit 0'
WALLS = ['descriptors']
PLACES = {
    'files': "[os.open('/workspace/f%d' % n, os.O_CREAT | os.O_RDWR) for n in range(3)]",
    'null': "[os.open('/dev/null', os.O_RDWR) for n in range(3)]",
    'proc': "[os.open('/proc/self/status', os.O_RDONLY) for n in range(3)]",
    'fifo': "(os.mkfifo('/workspace/p'), [os.open('/workspace/p', os.O_RDWR) for n in range(3)])",
    'sockets': "(socket.socketpair(), socket.socket())",
    'nothing': "None",
}


def code(place, close=True):
    closing = 'for n in (0, 1, 2): os.close(n)' if close else ''
    return (f"import os, socket\n{closing}\nkeep = {PLACES[place]}\n"
            "for n in (1, 2):\n    try: os.write(n, b'replaced')\n    except OSError: pass\nos._exit(0)")


def attack(box):
    for place in PLACES:
        done = box.python(code(place), stdin=b'x' * 100000)
        if done.verdict != 'ok' or done.out or done.err:
            escaped('CRASH', f'{place}: {done}')
        assert done.seconds < 10, done.seconds
    return f'{len(PLACES)} replacements: verdict ok, nothing in the output'


def control(box):
    done = box.python(code('nothing', close=False))
    assert (done.out, done.err) == (b'replaced', b'replaced'), done
    return 'with its streams left alone the same program is heard'
