"""NS-07: a nested sandbox must fail cleanly, not hang and not half work."""
import shutil

from escape.harness import escaped

TITLE = 'nested sandboxes'
TRIED = 'bwrap, unshare -Ur, unshare -Urmpf --mount-proc and coto itself inside the sandbox'
WALLS = ['seccomp', 'landlock', 'root_read_only']
NESTED = {
    'unshare': ['unshare', '-Ur', 'echo', 'nested'],
    'unshare all': ['unshare', '-Urmpf', '--mount-proc', 'echo', 'nested'],
    'bwrap': ['bwrap', '--ro-bind', '/', '/', '--unshare-all', 'echo', 'nested'],
}


def present():
    return {name: argv for name, argv in NESTED.items() if shutil.which(argv[0])}


def own(box, **more):
    """coto inside coto, from a directory of its own."""
    folder = box.folder / 'coto'  # wherever the clone is: below a home directory it could not be mounted
    folder.mkdir(exist_ok=True)
    for name in ('coto', 'coto-init', 'coto-policy'):
        shutil.copy(box.bin / name, folder)
    return box.run(['/mnt/coto', 'run', '--', 'echo', 'nested'], flags=['--mount', f'{folder}:/mnt:ro'], **more)


def attack(box):
    results = {name: box.run(argv, timeout=20) for name, argv in present().items()}
    results['coto'] = own(box)
    for name, done in results.items():
        if b'nested' in done.out:
            escaped('ESCAPE', f'{name} made a sandbox of its own')
        if done.verdict != 'nonzero' or not done.err:
            escaped('CRASH', f'{name}: {done.verdict}, no message')
        assert done.seconds < 10, (name, done.seconds)
    return f"{', '.join(results)}: nonzero with a message, at once"


def control(box):
    down = ['seccomp', 'landlock', 'proc_masks', 'root_read_only']
    assert box.run(NESTED['unshare'], without=down).out == b'nested\n'
    works = [name for name, argv in present().items() if b'nested' in box.run(argv, without=down, timeout=20).out]
    assert 'unshare' in works, works
    return f"without the filter these work: {', '.join(works)}"
