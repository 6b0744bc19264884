#!/usr/bin/python3
"""A Python interpreter that is forked into sandboxes (see template.c).

python.py LIBRARY CONTROL_FD MODULE,MODULE,...: imports the modules, then waits. What
returns from serve() is a copy of this process inside a sandbox, behind its walls, and it runs
the program it was given as `python3 FILE` or `python3 -c CODE` would. Without a CONTROL_FD ("-") it
is in a sandbox already, for one program and not to be forked.

Every object a copy looks at has a reference count in it, and the page that is in is then
copied: what runs in each copy is short for that reason.
"""
import _thread
import atexit
import ctypes
import gc
import os
import sys
import threading


NEW_ENVIRONMENT = 1  # what coto_template_serve and _go return
IS_CONTEXT = 2
AREA_IS_SMALL = 4


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
        self.at_fork(**hooks)  # for forks of the program's own

    def take_exit(self, function, *args, **kwargs):
        known = self.exits >= 0 and getattr(function, '__module__', None) in self.AT_EXIT
        self.exits = self.exits + 1 if known else -1
        return self.at_exit(function, *args, **kwargs)

    def imports(self, names):
        os.register_at_fork, atexit.register = self.take_fork, self.take_exit
        for name in names:
            try:
                __import__(name)
            except Exception:  # a library that is not there is not there in the sandbox either
                pass
        os.register_at_fork, atexit.register = self.at_fork, self.at_exit
        self.is_simple = self.is_simple and len(os.listdir('/proc/self/task')) == 1
        logging = sys.modules.get('logging')
        self.handlers = getattr(logging, '_handlerList', [])
        self.handler_count = len(self.handlers)

    def has_exits(self):
        """Whether a program, or what it used, is to be called at its end."""
        return self.exits != atexit._ncallbacks() or len(self.handlers) != self.handler_count


def warm_up():
    """What the first program would otherwise pay for; often enough for the interpreter to be
    done with adapting its code to it."""
    for _ in range(40):
        source, name = load(['python3', os.devnull])
        run(source + b'x = [i for i in range(3)]\nprint(2 + 2, f"{x!r:>5}", end="")', name, new_main(name))
        flush(0)
        area_texts(bytearray(b'python3\0/dev/null\0'), 18)
    take_environment([f'{name}={value}' for name, value in os.environ.items()])
    sys.modules.get('random') and sys.modules['random'].random()


def area_texts(area, used):
    return os.fsdecode(bytes(area[:used])).split('\0')[:-1]


def texts(library, what):
    return [library.coto_template_text(what, i).decode(errors='surrogateescape')
            for i in range(library.coto_template_count(what))]


def take_environment(items):
    """Most of it is there already; each change costs."""
    wanted = dict(item.split('=', 1) for item in items)
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if 'TZ' in wanted and 'time' in sys.modules:
        sys.modules['time'].tzset()


def after_fork(is_simple):
    """What the copy has of its own."""
    if is_simple:
        threading.main_thread()._set_native_id()
        random = sys.modules.get('random')
        if random:
            random._random.Random.seed(random._inst)  # what its own hook comes to
    numpy = sys.modules.get('numpy')
    if numpy and 'numpy.random' in sys.modules:
        numpy.random.seed()


def load(argv):
    """The program's source and name, as the interpreter itself would read them."""
    if argv[1] == '-c':
        sys.argv = ['-c'] + argv[3:]
        sys.path[0] = ''
        return argv[2], '<string>'
    sys.argv = argv[1:]
    full = argv[1] if argv[1].startswith('/') else os.path.abspath(argv[1])
    sys.path[0] = full.rpartition('/')[0] or '/'
    fd = os.open(argv[1], os.O_RDONLY | os.O_CLOEXEC)
    source = piece = os.read(fd, 65536)
    while piece:
        piece = os.read(fd, 1 << 20)
        source += piece
    os.close(fd)
    return source, argv[1]


def new_main(name):
    main = type(sys)('__main__')
    main.__builtins__ = sys.modules['builtins']
    if name != '<string>':
        main.__file__ = name
        main.__cached__ = None
    sys.modules['__main__'] = main
    return main


def exit_code(error):
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xff
    print(code, file=sys.stderr)
    return 1


def run(source, name, main):
    try:
        exec(compile(source, name, 'exec', dont_inherit=True), main.__dict__)
    except SystemExit as error:
        return exit_code(error)
    except BaseException as error:
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, KeyboardInterrupt):
            return 130
        return 1
    return 0


def finish(code, main, care):
    """Everything an ordinary exit does, except taking the interpreter itself apart."""
    try:
        if _thread._count() or getattr(threading, '_threading_atexits', True):
            threading._shutdown()
        if care.has_exits():
            atexit._run_exitfuncs()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = code or 1
    main.__dict__.clear()
    os._exit(flush(code))


def flush(code):
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            code = code or 120
    return code


def run_programs(library, flags, area, care):
    """One program; in a context one after the other, in the same __main__."""
    inside = None
    while flags >= 0:
        if flags & NEW_ENVIRONMENT:
            take_environment(texts(library, 1))
        argv = texts(library, 0) if flags & AREA_IS_SMALL else area_texts(area, library.used.value)
        try:
            source, name = load(argv)
        except OSError as error:
            print(f"{argv[0]}: can't open file {argv[1]!r}: [Errno {error.errno}] {error.strerror}",
                  file=sys.stderr)
            os._exit(2)
        inside = inside or new_main(name)
        code = run(source, name, inside)
        if not flags & IS_CONTEXT or library.coto_template_done(flush(code)):
            finish(code, inside, care)
        flags = library.coto_template_go()


def main():
    path, control, names = sys.argv[1:]
    library = ctypes.PyDLL(path)
    library.coto_template_text.restype = ctypes.c_char_p
    library.used = ctypes.c_size_t()
    area = bytearray(4096)
    room = (ctypes.c_char * len(area)).from_buffer(area)
    care = Care()
    care.imports(names.split(','))
    warm_up()
    gc.collect()
    gc.freeze()
    rest = room, ctypes.c_size_t(len(area)), ctypes.byref(library.used)
    is_inside = control == '-'
    flags = library.coto_template_park(*rest) if is_inside else \
        library.coto_template_serve(int(control), care.is_simple, *rest)
    if flags < 0:
        os._exit(0)
    if not is_inside:
        after_fork(care.is_simple)
    run_programs(library, flags, area, care)
    os._exit(70)


main()
