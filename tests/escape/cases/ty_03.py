"""TY-03: the program wants to drive its caller's terminal by what it prints."""
from escape.harness import escaped
from escape.lib_streams import terminal

TITLE = 'escape sequences in output'
TRIED = ('OSC 52 clipboard, title, device-status requests, cursor and colour, 8-bit C1, in UTF-8, cut in '
         'two, direction overrides, backspaces; on stdout, stderr, in --json and in coto\'s own messages')
WALLS = ['output_limit']
CONTROL = "option"
EVIL = [b'\x1b]52;c;ZXZpbA==\x07', b'\x1b]0;title\x07', b'\x1b[6n', b'\x1b[c', b'\x1b[2J\x1b[H', b'\x1bP+q544e\x1b\\',
        b'\x9b6n', b'\x9d52;c;eA==\x9c', b'\xc2\x9b6n', b'\xe2\x80\xae', b'\x08\x08\x08', b'\x7f', b'\x0e\x0f', b'\x05',
        b'\x1b_Gx\x1b\\', b'\x18\x1a']
ALL = b''.join(b'<' + one + b'>' for one in EVIL)
PRINT = f"import os, sys\nto = int(sys.argv[1])\ntext = {ALL!r}\nfor n in range(len(text)): os.write(to, text[n:n + 1])"
BAD = [b'\x1b', b'\x9b', b'\x9d', b'\xc2\x9b', b'\xe2\x80\xae', b'\x08', b'\x7f', b'\x0e', b'\x05', b'\x18']


def shown(box, argv, env=None, verb_done=True):
    with terminal() as it:
        status, seen = it.run(argv, env)
    assert not verb_done or status == 0, (status, seen)
    return seen


def judge(name, seen):
    found = [one for one in BAD if one in seen]
    if found:
        escaped('WRITE', f'{name}: {found} reached the terminal')


def attack(box):
    for stream in ('1', '2'):
        seen = shown(box, *box.command(PRINT, flags=['-q'], args=[stream]))
        judge(f'stream {stream}', seen)
        assert b'<' in seen and b'title' in seen, seen
    judge('result', shown(box, *box.command(PRINT, flags=['--json'], args=['1'])))
    word = ALL.replace(b'\0', b'').decode('utf-8', 'surrogateescape')
    for argv in ([word], ['sh', '-c', 'true', '--', word]):
        judge('message', shown(box, *box.command(argv, flags=['-q']), verb_done=False))
    judge('option', shown(box, *box.command(['true'], flags=['--hostname', word]), verb_done=False))
    judge('file', shown(box, *box.command(['true'], flags=['--policy', word]), verb_done=False))
    return f'{len(EVIL)} sequences made visible on both streams, in the result and in messages'


def control(box):
    seen = shown(box, *box.command(PRINT, flags=['-q', '--raw'], args=['1']))
    assert EVIL[0] in seen and EVIL[2] in seen, seen
    return 'with --raw OSC 52 and a status request reach the terminal'
