#!/usr/bin/python3
"""A Python interpreter that is forked into sandboxes (see template.c).

python.py LIBRARY CONTROL_FD own|host: imports the modules that come on CONTROL_FD, the usual and those that somebody has named, then waits in the library. What
comes back from that is a copy of this process inside a sandbox, behind its walls, and the library
runs the program it was given as `python3 FILE` or `python3 -c CODE` would (python.c). Here
is what that leaves to Python: what comes before, and what is rare. Without a CONTROL_FD ("-") it
is in a sandbox already, for one program and not to be forked, and the two lists follow. Without a LIBRARY ("-") it is there as a
program like any other, behind its walls, and takes one program after the other by itself.
"""
import sys

IS_SAFE = getattr(sys.flags, 'safe_path', False)  # then nothing stands before PYTHONPATH
if sys.argv[1] == '-':  # what is imported here is the library's, whatever lies in the workspace or in PYTHONPATH
    PATH = sys.path[not IS_SAFE:]
    sys.path[:] = [place for place in PATH if place.startswith(sys.base_prefix + '/lib')]
elif not IS_SAFE:
    sys.path[0] = '/dev/null'  # a directory of the host, whose names would be remembered

import _imp
import _thread
import atexit
import builtins
import gc
import io
import os
import threading

if sys.argv[1] == '-':
    sys.path[:] = PATH


class Care:
    """What modules ask to be called for while they are imported. What these three do after a
    fork a copy does by itself: nobody holds a lock, there is one thread, and random
    numbers are seeded anew. What logging does at exit it need not do before it was used."""
    AT_FORK = {'random', 'threading', 'logging'}
    AT_EXIT = {'logging'}

    def __init__(self):
        self.is_simple = True  # a fork is nobody's business
        self.exits = 0  # functions that have nothing to do until their module is used; -1: unknown
        self.at_fork = os.register_at_fork
        self.at_exit = atexit.register

    def take_fork(self, **hooks):
        self.is_simple = self.is_simple and all(
            getattr(hook, '__module__', None) in self.AT_FORK for hook in hooks.values())
        module = sys.modules.get('random')
        if hooks == {'after_in_child': getattr(getattr(module, '_inst', None), 'seed', None)}:
            hooks = {'after_in_child': lambda: module._inst.seed()}  # it will have another generator: move_random
        self.at_fork(**hooks)  # for forks of the program's own

    def take_exit(self, function, *args, **kwargs):
        known = self.exits >= 0 and getattr(function, '__module__', None) in self.AT_EXIT
        self.exits = self.exits + 1 if known else -1
        return self.at_exit(function, *args, **kwargs)

    def imports(self, names, more):
        os.register_at_fork, atexit.register = self.take_fork, self.take_exit
        for name in names:
            try:
                __import__(name)
            except Exception:  # a library that is not there is not there in the sandbox either
                pass
        if more.names:
            more.imports()
        os.register_at_fork, atexit.register = self.at_fork, self.at_exit
        self.is_simple = self.is_simple and len(os.listdir('/proc/self/task')) == 1
        logging = sys.modules.get('logging')
        self.handlers = getattr(logging, '_handlerList', [])
        self.handler_count = len(self.handlers)


class More:
    """Modules that somebody has named beside the usual ones. Each is tried in a process of its own first: what is left of
    one that fails half-way would be found by the program instead of its failure. Where files could be made that
    stay (no view of its own: launcher/view.c), one that wants to make some is left out. And nobody starts
    threads: a copy would be without them, and wait for them."""
    THREADS = ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS')

    def __init__(self, names, has_own_view):
        self.names = [name for name in names.split(',') if name]
        self.has_own_view = has_own_view
        self.missing = []

    def refuse(self, *args, **kwargs):
        os._exit(1)

    def try_it(self, name):
        if not self.has_own_view:
            os.mkdir = self.refuse
        try:
            __import__(name)
            os._exit(len(os.listdir('/proc/self/task')) != 1)
        except BaseException:
            os._exit(1)

    def imports(self):
        os.environ.update(dict.fromkeys(self.THREADS, '1'))
        for name in self.names:
            child = os.fork()
            if child == 0:
                self.try_it(name)
            if os.waitpid(child, 0)[1] == 0:
                __import__(name)
            else:
                self.missing.append(name)
        for name in self.THREADS:
            del os.environ[name]


class Streams:
    """As with `python3 -u` while PYTHONUNBUFFERED is set. What the program has put in place of a
    stream is left alone, and to one that it holds on to each line is written when it is whole."""
    NAMES = ('stdout', 'stderr')

    def __init__(self):
        self.usual = [getattr(sys, name) for name in self.NAMES]
        self.live = []

    def make(self, number, usual):
        raw = io.FileIO(number, 'w', closefd=False)
        raw.name = usual.name
        stream = io.TextIOWrapper(raw, usual.encoding, usual.errors, '\n', write_through=True)
        stream.mode = 'w'
        return stream

    def replace(self, old, new):
        for name, before, after in zip(self.NAMES, old, new):
            for place in (name, f'__{name}__'):
                if getattr(sys, place, None) is before:
                    setattr(sys, place, after)

    def take(self, is_live):
        if is_live and not self.live:
            self.live = [self.make(number + 1, usual) for number, usual in enumerate(self.usual)]
            self.replace(self.usual, self.live)
        elif self.live and not is_live:
            self.replace(self.live, self.usual)
            self.live = []
        try:
            self.usual[0].reconfigure(line_buffering=is_live)
        except ValueError:  # an earlier program has closed it
            pass


streams = Streams()


def new_stdin(old):
    """In the place of one that holds bytes of an earlier program's which it cannot decode, and so cannot be read empty."""
    if old.closed:
        return old
    raw = io.FileIO(0, 'r', closefd=False)
    raw.name = old.name
    stream = io.TextIOWrapper(io.BufferedReader(raw), old.encoding, old.errors, line_buffering=old.line_buffering)
    stream.mode = 'r'
    for place in ('stdin', '__stdin__'):
        if getattr(sys, place, None) is old:
            setattr(sys, place, stream)
    return stream


given = None  # the environment that came with the last program


def take_environment(items):
    """Most of it is there already; each change costs. What an earlier program has changed stays as that one left it, unless
    it is given otherwise now."""
    global given
    wanted = dict(item.split('=', 1) for item in items)
    before = dict(os.environ) if given is None else given
    for name in before:
        if name not in wanted:
            os.environ.pop(name, None)
    for name, value in wanted.items():
        if before.get(name) != value:
            os.environ[name] = value
    given = wanted
    if 'time' in sys.modules and wanted.get('TZ') != before.get('TZ'):
        sys.modules['time'].tzset()
    if 'site' in sys.modules and wanted.get('HOME') != before.get('HOME'):
        sys.modules['site'].USER_BASE = sys.modules['site'].USER_SITE = None
        use_user_site()
    if streams.live or wanted.get('PYTHONUNBUFFERED'):
        streams.take(bool(wanted.get('PYTHONUNBUFFERED')))


def use_user_site():
    """Modules in the program's home: when this interpreter started there was none."""
    site = sys.modules['site']
    place = site.ENABLE_USER_SITE and site.getusersitepackages()
    if not place or place in sys.path or not os.path.isdir(place):
        return
    end = len(sys.path)
    site.addsitedir(place)
    found = sys.path[end:]
    del sys.path[end:]
    at = min([sys.path.index(it) for it in site.getsitepackages() if it in sys.path], default=end)
    sys.path[at:at] = found  # where it would have been


def after_fork():
    """What the copy has of its own, where that is more than the library knows of."""
    threading.main_thread()._set_native_id()
    if 'random' in sys.modules:
        sys.modules['random'].seed()
    if 'numpy.random' in sys.modules:
        sys.modules['numpy'].random.seed()


def set_first_place(place):
    if not IS_SAFE:
        sys.path[0] = place


def load(argv):
    """The program's source and name, as the interpreter itself would read them."""
    try:
        return read_program(argv)
    except OSError as error:
        print(f"{argv[0]}: can't open file {argv[1]!r}: [Errno {error.errno}] {error.strerror}",
              file=sys.stderr)
        os._exit(2)


def read_program(argv):
    sys.orig_argv = list(argv)
    if argv[1] == '-c':
        sys.argv = ['-c'] + argv[3:]
        set_first_place('')
        return argv[2], '<string>'
    sys.argv = argv[1:]
    full = argv[1] if argv[1].startswith('/') else os.path.abspath(argv[1])
    set_first_place(full.rpartition('/')[0] or '/')
    fd = os.open(argv[1], os.O_RDONLY | os.O_CLOEXEC)
    source = piece = os.read(fd, 65536)
    while piece:
        piece = os.read(fd, 1 << 20)
        source += piece
    os.close(fd)
    return source, argv[1]


def exit_code(error):
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xff
    print(code, file=sys.stderr)
    return 1


def failed(error):
    if isinstance(error, SystemExit):
        return exit_code(error)
    sys.excepthook(type(error), error, error.__traceback__)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def wind_up(code):
    """Of an ordinary exit what has to do with threads and exit handlers."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = code or 1
    return code


def flush(code):
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            code = code or 120
    return code


def is_held(ours, new):
    """Whether somebody else holds one of ours, and would go on with it: nobody does of those that were made like them."""
    return any(sys.getrefcount(ours[name]) != sys.getrefcount(new[name]) for name in new)


def make_stdout(old):
    buffer = io.open(1, 'wb', closefd=False)
    buffer.raw.name = old.name
    stream = io.TextIOWrapper(buffer, old.encoding, old.errors, '\n')
    stream.mode = old.mode
    return stream


def parts_of(stream):
    return {'text': stream, 'buffer': stream.buffer, 'raw': stream.buffer.raw}


def move_stdout():
    """Here and below: what nearly every program writes to is made anew, in memory where nothing else is (heap.c)."""
    if not sys.stdout is sys.__stdout__ is streams.usual[0] or sys.stdout.line_buffering or sys.stdout.write_through:
        return
    new = [make_stdout(sys.stdout)] * 3  # as many as there are places
    if not is_held(parts_of(sys.stdout), parts_of(new[0])):
        streams.usual[0] = sys.stdout = sys.__stdout__ = new[0]


def move_random():
    """Comes back with what is to be seeded."""
    module = sys.modules.get('random')
    if not module or type(module._inst) is not module.Random:
        return module and module._inst
    new = {'_inst': module.Random()}
    new.update((name, getattr(new['_inst'], name)) for name, it in vars(module).items()
               if getattr(it, '__self__', None) is module._inst)
    if not is_held(vars(module), new):
        vars(module).update(new)
    return module._inst


def tools(care):
    """In the order of python.c."""
    random = sys.modules.get('random')
    is_known = care.is_simple and 'numpy.random' not in sys.modules
    return (compile, take_environment, None if is_known else after_fork,
            threading.main_thread(), random and random._random.Random.seed, random and random._inst,
            load, failed, flush, wind_up, builtins,
            _thread._count, getattr(threading, '_threading_atexits', None), atexit._ncallbacks, care.exits, care.handlers, care.handler_count,
            sys.stdin, new_stdin, use_user_site, getattr(sys.modules.get('site'), 'USER_SITE', None) or '', move_stdout, move_random)


# ---- without the library ----

ARGV, ENV = 32, 33  # wire/frame.h
MAGIC = 0x636f746f  # template/talk.h


class Channel:
    """To the sandbox's init, as stdin at first; what is said on it is in template/talk.h."""

    def __init__(self):
        import _socket
        import fcntl
        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0,
                                     fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10))

    def receive(self):
        """The next program's arguments and environment; its streams are 0, 1, 2 then."""
        data, parts, _, _ = self.socket.recvmsg(1 << 19, 64)
        if not parts:
            os._exit(0)
        for number, fd in enumerate(memoryview(parts[0][2]).cast('i')):
            os.dup2(fd, number)
            os.close(fd)
        found, at = {ARGV: [], ENV: []}, 8
        while at < len(data):
            tag, end = (int.from_bytes(data[at:at + 2], 'little'),
                        at + 6 + int.from_bytes(data[at + 2:at + 6], 'little'))
            if tag in found:
                found[tag].append(os.fsdecode(data[at + 6:end]))
            at = end
        return found[ARGV], found[ENV]

    def say_done(self, status):
        null = os.open('/dev/null', os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        if null > 2:
            os.close(null)
        self.socket.send(MAGIC.to_bytes(4, sys.byteorder) + status.to_bytes(4, sys.byteorder))


def run_program(argv, main):
    try:
        source, name = load(argv)
        if name != '<string>' and '__file__' not in main:
            main.update(__file__=name, __cached__=None)
        exec(compile(source, name, 'exec', 0, True), main)
        return 0
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # without this frame
        return failed(error)


def stay():
    """One program after the other, in the same __main__."""
    channel, ours, stdin = Channel(), sys.modules['__main__'], sys.stdin
    if not IS_SAFE:
        sys.path.insert(0, '')
    main = sys.modules['__main__'] = type(ours)('__main__')
    main.__builtins__ = builtins
    pid, given, changed = os.getpid(), None, None
    while True:
        argv, env = channel.receive()
        if given is None:  # the interpreter itself changes this one where it starts in the C locale
            given = [item for item in env if item.startswith('LC_CTYPE=')]
            changed = [f'LC_CTYPE={value}' for name, value in os.environ.items() if name == 'LC_CTYPE']
        take_environment(changed + [item for item in env if item not in given])
        status = flush(run_program(argv, main.__dict__))
        if os.getpid() != pid:  # the program has forked, and this is not who was asked
            os._exit(flush(wind_up(status)))
        try:
            channel.say_done(status & 0xff)
        except OSError:  # nobody is left to give it another
            os._exit(flush(wind_up(status)))
        try:
            stdin.read()  # from nothing now: what was read ahead is not for the next program
        except Exception:
            stdin = new_stdin(stdin)


def come_home():
    """From where it was started, on the host, without a home of anybody's (launcher/template.c)."""
    if os.environ.get('HOME') != '/dev/null/':
        return
    os.environ['HOME'] = '/workspace'
    site = sys.modules.get('site')
    for name in ('USER_BASE', 'USER_SITE'):
        if getattr(site, name, None):
            setattr(site, name, getattr(site, name).replace('/dev/null', '/workspace', 1))


def forget_host():
    """What was seen of it that is no program's business: where this file lies, and what modules have asked
    for while they were imported (uuid the host's name)."""
    sys.path_importer_cache.pop(sys.argv[0], None)
    platform = sys.modules.get('platform')
    if platform:
        platform._uname_cache = None
        platform._platform_cache.clear()


class Spec:
    """As much of a module's specification as loading it takes."""
    name = 'coto_template'

    def __init__(self, path):
        self.origin = path


def main():
    path, control, *rest = sys.argv[1:]
    if path == '-':
        stay()
    is_inside = control == '-'
    names, more = rest[1:] if is_inside else os.read(int(control), 1 << 20).decode().split('\n')
    more = More(more, rest[0] == 'own')
    library = _imp.create_dynamic(Spec(path))
    sys.modules.pop(Spec.name, None)  # no program's
    sys.orig_argv = getattr(sys, 'orig_argv', [])[:1]  # since 3.10
    come_home()
    care = Care()
    care.imports(names.split(','), more)
    forget_host()
    if more.missing and not is_inside:
        os.write(int(control), b'w' + ', '.join(more.missing).encode()[:500])
    library.hand_over(*tools(care))
    library.rehearse()
    take_environment([f'{name}={value}' for name, value in os.environ.items()])
    sys.modules.get('random') and sys.modules['random'].random()
    gc.collect()
    gc.freeze()
    library.serve(-1 if is_inside else int(control), care.is_simple)


main()
