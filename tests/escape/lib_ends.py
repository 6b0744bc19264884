"""What the cases about ends and time limits share.

Their programs end by themselves with status 7 after SECONDS: with the time limit of
300 ms they never get there, without that wall they do, and nothing hangs for long.
"""
from escape.harness import escaped

SECONDS = 1.2
LIMIT = ["--timeout", "300ms"]
GRACE = 5  # seconds until an ended run must have told so; the machine is shared
HEAD = f"""
import ctypes, os, signal, sys, threading, time
end = time.monotonic() + {SECONDS}
def rest():
    while time.monotonic() < end: time.sleep(0.01)
    os._exit(7)
"""


def is_timed_out(box, code, kind="ESCAPE", flags=(), **more):
    """The wall: ended by the limit, told as such, nothing left. What happened, in words."""
    done = box.python(HEAD + code, flags=[*LIMIT, *flags], **more)
    if (done.verdict, done.status) != ("timeout", 124):
        escaped(kind, f"{done.verdict}, status {done.status}")
    if done.seconds > GRACE:
        escaped("CRASH", f"told after {done.seconds:.1f} s")
    assert done.json["limit"] == "timeout", done.json
    left = box.host.survivors()
    if left:
        escaped("ESCAPE", f"still running: {left}")
    return f"timeout after {done.json['duration_ms']:.0f} ms, told after {done.seconds:.2f} s"


def goes_on(box, code, without=("timeout",), flags=(), **more):
    """The control: the same program passes its limit and ends by itself."""
    done = box.python(HEAD + code, flags=[*LIMIT, *flags], without=list(without), **more)
    assert (done.verdict, done.code) == ("nonzero", 7), done
    assert done.json["duration_ms"] > 1000, done.json
    return f"ran {done.json['duration_ms']:.0f} ms past a limit of 300 ms"
