"""SG-03: the program wants the kernel to send signals for it."""

from escape.harness import ended, escaped, state, victim
from escape.lib_files import TRY

TITLE = 'signals by way of the kernel'
TRIED = ('F_SETOWN and F_SETOWN_EX with F_SETSIG and O_ASYNC on a pipe and a socket, timer_create with a '
         'foreign thread id, mq_open, leases, F_NOTIFY, PDEATHSIG, 9999 queued signals')
WALLS = ['pid_namespace', 'seccomp']
ASYNC = TRY + """
import signal, struct
target = int(sys.argv[1])
out = {}
def owned(read, write, number):
    out['owner %d' % number] = attempt(fcntl.fcntl, read, 8, number)
    out['owner ex %d' % number] = attempt(fcntl.fcntl, read, 15, struct.pack('ii', 1, abs(number)))
    fcntl.fcntl(read, 10, signal.SIGTERM)
    attempt(fcntl.fcntl, read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(write, b'x')
pipe = os.pipe()
owned(pipe[0], pipe[1], target)
one, two = socket.socketpair()
owned(one.fileno(), two.fileno(), target)
"""
MORE = """
timer = (ctypes.c_long * 8)()
event = (ctypes.c_int * 16)(0, 0, signal.SIGTERM, 4, target)  # SIGEV_THREAD_ID
out['timer'] = kernel(222, 1, event, timer)
out['mq'] = kernel(240, b'/q', 0o102, 0o600, None)
file = os.open('/workspace/f', os.O_CREAT | os.O_RDWR)
out['lease'] = attempt(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
out['notify'] = attempt(fcntl.fcntl, os.open('/workspace', 0), fcntl.F_NOTIFY, 1)
out['deathsig'] = kernel(157, 1, signal.SIGTERM)
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
queued = 0
while queued < 9999 and libc.sigqueue(os.getpid(), 40, None) == 0: queued += 1
out['queued'] = queued
"""
END = "\nprint(json.dumps(out))"


def attack(box):
    with victim() as process:
        told = box.inside(ASYNC + MORE + END, args=[process.pid])
        alive = state(process.pid)
    if alive not in 'SRD':
        escaped('CRASH', 'the host process was hit')
    reached = [name for name in ('timer', 'mq', 'lease', 'notify') if told[name] == 'done']
    if reached:
        escaped('ESCAPE', f'{reached}')
    if told['queued'] > 1024:
        escaped('CRASH', f"{told['queued']} queued signals, which count for the caller")
    return f"no foreign target; {told['queued']} queued signals at most"


def control(box):
    with victim() as process:
        told = box.inside(ASYNC + END, args=[process.pid], without=['pid_namespace', 'landlock', 'uid', 'seccomp'])
        assert ended(process.pid), told
    return 'SIGTERM by F_SETOWN killed the host process'
