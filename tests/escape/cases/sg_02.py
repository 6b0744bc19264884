"""SG-02: the program wants to stop or end the caller's process group."""
import subprocess

from cli.helpers import environment
from escape.harness import ended, escaped, state

TITLE = 'signals to the process group of the caller'
TRIED = ("SIGTTOU, SIGTERM, SIGUSR1, SIGTSTP and SIGHUP to process group 0, with a process of the caller in "
         "coto's group (control: SIGTERM)")
WALLS = ['pid_namespace', 'landlock']
GROUP = """
import os, signal, sys
for number in map(int, sys.argv[1].split(',')):
    signal.signal(number, signal.SIG_IGN)
    for pid in (0, -os.getpgrp() or 0):
        if pid == 0 or pid < -1:
            try: os.kill(pid, number)
            except OSError: pass
sys.stdout.write('own\\n' if os.getsid(0) == os.getpgrp() == os.getpid() else 'shared %d %d\\n' % (os.getsid(0), os.getpgrp()))
"""


def tried(box, numbers, look=state, **more):
    """(what the program said of its session, coto's status, a look at a process in coto's group)."""
    argv, env = box.command(GROUP, args=[numbers], **more)
    # A group of its own: whatever happens, it is not the test's.
    bystander = subprocess.Popen(['cat'], stdin=subprocess.PIPE, process_group=0)
    try:
        coto = subprocess.Popen(argv, env=environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, process_group=bystander.pid)
        try:
            out, _ = coto.communicate(timeout=30)
        finally:
            coto.kill()
            coto.wait()
        return out.decode().strip(), coto.returncode, look(bystander.pid)
    finally:
        bystander.kill()
        bystander.wait()
        bystander.stdin.close()


def attack(box):
    said, status, alive = tried(box, '22,15,10,20,1')
    if alive not in 'SRD' or status != 0:
        escaped('CRASH', f'group: process {alive}, coto {status}')
    assert said == 'own', said
    return 'own session and group; the caller\'s group hears nothing'


def control(box):
    said, status, hit = tried(box, '15', ended, without=['session', 'landlock', 'uid', 'seccomp'])
    assert hit, (said, status)
    return f'the caller\'s process was hit, coto ended with {status}'
