"""TO-02: hear nothing and run for ever."""
from escape.lib_ends import goes_on, is_timed_out

TITLE = "ignores every signal and spins"
TRIED = "handlers, ignored and blocked for all 64 signals, in main and 3 threads; then a busy loop"
WALLS = ["timeout"]
CODE = """
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN if n % 2 else lambda *_: None)
    except (OSError, ValueError): pass
def spin():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while time.monotonic() < end: pass
    os._exit(7)
for _ in range(3): threading.Thread(target=spin).start()
spin()
"""


def attack(box):
    return is_timed_out(box, CODE)


def control(box):
    return goes_on(box, CODE)
