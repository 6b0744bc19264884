"""NS-08: a host without user namespaces or Landlock must not get a weaker sandbox in silence."""
from escape.harness import HERE, escaped

TITLE = 'hosts without user namespaces or Landlock'
TRIED = ('coto where user namespaces are limited to 0, where they are denied (EPERM), where the kernel has '
         'no Landlock')
WALLS = ['user_namespace', 'landlock']
ECHO = ['echo', 'ran']
# As root of a namespace of its own any caller can forbid further ones.
NONE_LEFT = ['unshare', '--user', '--map-root-user', 'sh', '-c',
             'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', 'sh']


def hosts(box):
    old = box.c(HERE / 'old.c')
    return {'no user namespaces left': (NONE_LEFT, ['user_namespace', 'max_user_namespaces']),
            'user namespaces denied': ([old, 'userns'], ['user_namespace', 'allow user namespaces']),
            'no Landlock': ([old, 'landlock_create_ruleset'], ['landlock', 'allow-missing'])}


def start(box, before, flags=()):
    argv, env = box.command(ECHO, flags=flags)
    if box.situation == 'old':  # the launcher stands in front already; what it takes away is named here
        argv = [word for word in argv[len(box.prefix):] if word not in ('--allow-missing', 'landlock')]
    return box.start_and_wait(before + argv, env=env, timeout=30)


def attack(box):
    for name, (before, words) in hosts(box).items():
        done = start(box, before)
        if b'ran' in done.out:
            escaped('ESCAPE', f'{name}: it ran')
        assert done.status >= 64 and all(word in done.message for word in words), (name, done)
        assert '  remedy: ' in done.message, done
    return 'refused each time, with the wall and a remedy named'


def control(box):
    """The same callers, with a host that has it, or a policy that names what is missing."""
    old = box.c(HERE / 'old.c')
    assert start(box, [old, 'none']).out == b'ran\n'
    argv, env = box.command(ECHO, flags=['--json', '--allow-missing', 'landlock'])
    done = box.start_and_wait([old, 'landlock_create_ruleset', *argv[len(box.prefix):]], env=env)
    assert b'ran' in done.out and b'"missing_walls":["landlock"' in done.out.replace(b' ', b''), done
    return 'it runs where nothing is missing, and without Landlock when the policy names it'
