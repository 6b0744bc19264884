#!/usr/bin/python3
"""A Python interpreter that is forked into sandboxes (see template.c).

python.py LIBRARY CONTROL_FD MODULE,MODULE,...: imports the modules, then waits. What
returns from serve() is a copy of this process inside a sandbox; go() brings it behind the
walls, and it runs the program it was given as `python3 FILE` or `python3 -c CODE` would.
"""
import atexit
import ctypes
import gc
import os
import sys
import threading


def import_all(names):
    for name in names:
        try:
            __import__(name)
        except Exception:  # a library that is not there is not there in the sandbox either
            pass


def warm_up():
    """What the first program would otherwise pay for."""
    exec(compile('x = [i for i in range(3)]\nprint(x, f"{x!r:>5}", end="")', '<warm>', 'exec'), {})
    sys.stdout.flush()
    take_environment([f'{name}={value}' for name, value in os.environ.items()])
    open(__file__).close()
    sys.modules.get('random') and sys.modules['random'].random()


def texts(library, what):
    return [library.coto_template_text(what, i).decode(errors='surrogateescape')
            for i in range(library.coto_template_count(what))]


def take_environment(items):
    """Most of it is what the template has already; each change costs."""
    wanted = dict(item.split('=', 1) for item in items)
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if 'TZ' in wanted and 'time' in sys.modules:
        sys.modules['time'].tzset()


def reseed():
    """random does so by itself after a fork."""
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
    sys.path[0] = os.path.dirname(os.path.abspath(argv[1]))
    with open(argv[1], 'rb') as file:
        return file.read(), argv[1]


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


def finish(code, main):
    """Everything an ordinary exit does, except taking the interpreter itself apart."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = code or 1
    main.__dict__.clear()
    os._exit(flush(code))


def flush(code):
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            code = code or 120
    return code


def run_programs(library):
    """One program; in a context one after the other, in the same __main__."""
    inside = None
    while library.coto_template_go() == 0:
        take_environment(texts(library, 1))
        argv = texts(library, 0)
        try:
            source, name = load(argv)
        except OSError as error:
            print(f"{argv[0]}: can't open file {argv[1]!r}: [Errno {error.errno}] {error.strerror}",
                  file=sys.stderr)
            os._exit(2)
        inside = inside or new_main(name)
        code = run(source, name, inside)
        if library.coto_template_done(flush(code)):
            finish(code, inside)


def main():
    library = ctypes.PyDLL(sys.argv[1])
    library.coto_template_text.restype = ctypes.c_char_p
    control = int(sys.argv[2])
    import_all(sys.argv[3].split(','))
    warm_up()
    gc.collect()
    gc.freeze()
    if library.coto_template_serve(control):
        os._exit(0)
    reseed()
    run_programs(library)
    os._exit(70)


main()
