"""FD-07: coto is started with closed streams; no host file may land on 0, 1 or 2."""
import os
import subprocess

from cli.helpers import environment
from escape.harness import escaped
from escape.lib_files import room

TITLE = 'a caller without stdin, stdout or stderr'
TRIED = ('coto started with each of 0, 1, 2 closed and with all; what the program and the supervisor have '
         'there')
WALLS = ['descriptors']
CLOSED = ['0<&-', '1>&-', '2>&-', '0<&- 1>&-', '1>&- 2>&-', '0<&- 1>&- 2>&-']
LOOK = 'readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 > output/x; echo lost; echo lost >&2; exit 3'


def start(box, closed, folder):
    argv, env = box.command(['sh', '-c', LOOK], flags=['--artifacts', folder / 'out'])
    done = box.start_and_wait(['sh', '-c', f'exec {closed}; exec "$@"', 'sh', *argv], env=env, timeout=30)
    return done, (folder / 'out/x').read_text().split()


def supervisor(box):
    """What coto itself has as 0 and 2 when these were closed."""
    argv, env = box.command(['sh', '-c', 'echo ready; sleep 20'])
    process = subprocess.Popen(['sh', '-c', 'exec 0<&- 2>&-; exec "$@"', 'sh', *argv], stdout=subprocess.PIPE,
                               env=environment(env))
    try:
        assert process.stdout.readline() == b'ready\n'
        return [os.readlink(f'/proc/{process.pid}/fd/{n}') for n in (0, 2)]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def attack(box):
    for closed in CLOSED:
        with room() as folder:
            done, inside = start(box, closed, folder)
        if any(not name.startswith('pipe:') for name in inside[:1] + inside[2:]):
            escaped('READ', f'{closed}: {inside}')
        if done.status != 3:
            escaped('CRASH', f'{closed}: {done}')
    places = supervisor(box)
    if any(name != '/dev/null' for name in places):
        escaped('WRITE', f'the supervisor has {places}')
    return f'{len(CLOSED)} callers: pipes inside, /dev/null in the supervisor, own status told'


def control(box):
    """Why it matters: a process without stdin finds its next file there."""
    done = box.sh("exec 0<&-; exec python3 -c 'import os; print(os.open(\"/etc/passwd\", 0))'")
    assert done.text == '0', done
    return 'the first file opened with stdin closed became descriptor 0'
