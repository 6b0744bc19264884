"""NS-01: the program wants a namespace, a root directory or a mount tree of its own making."""
from escape.lib_files import all_refused, attempts

TITLE = 'unshare, setns, chroot, pivot_root'
TRIED = ('unshare of each of 8 kinds alone and with a user namespace, setns to own and init\'s namespaces and '
         'by pidfd, chroot, pivot_root')
WALLS = ['seccomp', 'capabilities']
KINDS = {'user': 0x10000000, 'mnt': 0x20000, 'pid': 0x20000000, 'net': 0x40000000, 'ipc': 0x8000000,
         'uts': 0x4000000, 'cgroup': 0x2000000, 'time': 0x80}
NS = "lambda p, flag: kernel(308, os.open('/proc/%s/ns/%s' % (p, flag), 0), 0)"
OPEN = f"""
join = {NS}
def joined(*args):
    try: return join(*args)
    except OSError as reason: return errno.errorcode[reason.errno]
"""


def table():
    rows = {f'unshare {name}': f'kernel(272, {flag})' for name, flag in KINDS.items()}
    rows.update({f'unshare user+{name}': f'kernel(272, {flag | KINDS["user"]})' for name, flag in KINDS.items()})
    rows.update({f'setns {who} {name}': f'joined({who!r}, {name!r})' for who in ('self', '1') for name in KINDS})
    rows['setns pidfd'] = 'kernel(308, libc.syscall(434, os.getpid(), 0), 0x20000)'
    rows['chroot'] = "kernel(161, b'/workspace')"
    rows['pivot_root'] = "kernel(155, b'/', b'/')"
    return rows


def attack(box):
    return all_refused(attempts(box, table(), OPEN), 'ESCAPE')


def control(box):
    rows = {name: text for name, text in table().items() if name in ('unshare mnt', 'chroot')}
    found = attempts(box, {'user': 'kernel(272, 0x10000000)'}, without=['seccomp'])
    assert found['user'] == 'done', found
    more = attempts(box, {**rows, 'own net': 'kernel(272, 0x40000000)', 'setns net': "joined('self', 'net')"},
                    OPEN, without=['seccomp', 'capabilities', 'landlock'])
    done = sorted(name for name, word in more.items() if word == 'done')
    assert {'unshare mnt', 'own net', 'setns net'} <= set(done), more
    return 'a user namespace without the filter; with capabilities too: ' + ', '.join(done)
