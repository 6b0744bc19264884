"""What the cases between sandboxes share: one that leaves something, one that looks for it."""
import contextlib
import json

from escape.harness import escaped
from escape.lib_files import TRY

__all__ = ["look", "neighbour", "nothing"]


@contextlib.contextmanager
def neighbour(box, leave, clean="", **more):
    """A sandbox that has done `leave` and goes on; yields what it put into `say`, and the
    running sandbox. It does `clean` before it ends."""
    code = (f"{TRY}say = None\n{leave}\nprint('ready')\nprint(json.dumps(say), flush=True)\n"
            f"input()\n{clean}")
    with box.running(code, **more) as it:
        yield json.loads(it.line()), it
        with contextlib.suppress(BrokenPipeError):  # it has been told already, and has ended
            it.say("\n")
        done = it.end(40)
        assert done.status == 0, done


def look(box, code, **more):
    """What a second sandbox finds: `code` fills the dictionary `found`."""
    return box.inside(f"{TRY}found = {{}}\n{code}\nprint(json.dumps(found))", **more)


def nothing(found, proof="READ"):
    """An escape when anything of the neighbour's was found (a true value)."""
    seen = {name: value for name, value in found.items() if value}
    if seen:
        escaped(proof, f"found: {seen}")
    return f"none of {len(found)} found"
