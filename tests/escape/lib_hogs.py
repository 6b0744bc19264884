"""What the cases about memory share: hogs, and the judgement that a limit ended them."""
from escape.harness import Untestable, escaped
from escape.lib_files import TRY

__all__ = ["SMALL", "LARGE", "all_ended", "all_held", "has_limit", "hold", "need_limit", "spread"]
SMALL = ["--memory", "48m", "--tmp-size", "100m", "--disk", "100m"]
LARGE = ["--memory", "300m", "--tmp-size", "100m", "--disk", "100m"]


def has_limit(box, name):
    return name not in box.sh("true").json["missing_walls"]


def need_limit(box, name, *flags):
    """Not a hole where the result names the limit as missing; hiding it would be one."""
    result = box.sh("true", flags=flags)
    if name in result.json["missing_walls"]:
        raise Untestable(f"{name} is in missing_walls here: {result.json['walls'][name].get('note', '')}"[:150])
    assert result.json["walls"][name]["up"], result.json["walls"][name]


def spread(count, work):
    """A hog of so many children (number n), each of which keeps what it has. Fails when one dies."""
    return f"""
import select
r, w = os.pipe()
for n in range({count}):
    if os.fork() == 0:
        {work}
        os.write(w, b'x'); time.sleep(60)
got = 0
while got < {count}:
    got += len(os.read(r, 64)) if select.select([r], [], [], 0.05)[0] else 0
    if os.waitpid(-1, os.WNOHANG)[0]: sys.exit(1)
"""


def hold(box, hog, flags, **more):
    """The result of a hog that says "held" when it has all it wants."""
    return box.python(f"{TRY}{hog}\nprint('held', flush=True)", flags=flags, **more)


def all_ended(box, hogs, flags=SMALL):
    """Each hog ends as out of memory, and the peak stays at the limit."""
    need_limit(box, "memory")
    for name, hog in hogs.items():
        result = hold(box, hog, flags)
        if b"held" in result.out:
            escaped("CRASH", f"{name}: 80 MiB held with a limit of 48 MiB ({result.verdict})")
        if (result.verdict, result.status) != ("oom", 137):
            escaped("CRASH", f"{name}: ended as {result.verdict}, not as oom")
        peak = result.json["memory_peak_bytes"]
        if peak > 49 << 20:
            escaped("CRASH", f"{name}: peak of {peak >> 20} MiB")
    return f"oom, 137, peak at the limit: {', '.join(hogs)}"


def all_held(box, hogs, flags=LARGE):
    """The control: with a larger limit each of them gets what it wants."""
    for name, hog in hogs.items():
        result = hold(box, hog, flags)
        assert result.verdict == "ok" and b"held" in result.out, (name, result)
    return f"80 MiB held with 300 MiB allowed: {', '.join(hogs)}"
