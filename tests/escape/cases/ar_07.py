"""AR-07: a FIFO, a socket or a device among the files, so that whoever reads it waits for ever."""
import os
import socket

from escape.harness import SLOW, escaped
from escape.lib_artifacts import LEVELS, collect, contents
from escape.lib_files import file, folder, refusal, room

TITLE = "FIFOs, sockets, devices as files"
TRIED = "in the output, as the output, in and as --copy, as --mount; each within a second more than a plain run (row: 2 s)"
WALLS = ["mount_namespace"]

SPECIALS = """
import socket
os.mkfifo("fifo"); os.mkdir("d"); os.mkfifo("d/fifo")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
os.symlink("/dev/zero", "zero"); os.symlink("/dev/stdin", "stdin"); os.symlink("fifo", "alias")
open("file", "w").write("f")
"""
REPLACED = "os.chdir('..'); os.rmdir('output'); os.mkfifo('output')"
SECONDS = 1 * SLOW
TRIES = 3  # a shared machine may stop for a while; what waits for a FIFO waits each time


def quick(run, plain):
    """The result of run(), which takes hardly longer than a plain one."""
    took = []
    for _ in range(TRIES):
        result = run()
        took.append(result.seconds - plain)
        if took[-1] <= SECONDS:
            return result
    return escaped("CRASH", f"it took {min(took):.1f} s more than a plain run")


def refused(box, plain, flag, value, *statuses):
    refusal(quick(lambda: box.run(["true"], flags=[flag, value], may_refuse=True), plain), *statuses)


def attack(box):
    plain = min(box.python("pass").seconds for _ in range(3))
    with room() as here:
        for number, level in enumerate(LEVELS.values()):
            out = here / f"out{number}"
            result = quick(lambda: collect(box, SPECIALS, out, level), plain)
            assert set(contents(out)) == {"file"} and result.json["artifacts_skipped"] == 6, result.json
            quick(lambda: collect(box, REPLACED, here / f"fifo{number}", level), plain)
        source = folder(here / "in")
        os.mkfifo(source / "fifo")
        file(source / "file", "f")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(source / "socket"))
            result = quick(lambda: box.sh("ls in", flags=["--copy", f"{source}:in"]), plain)
            assert result.text == "file", result
            for name in ("fifo", "socket"):
                for flag in ("--copy", "--mount"):
                    refused(box, plain, flag, f"{source}/{name}:/tmp/x", 66, 68)
        for device in ("/dev/zero", "/dev/null", "/dev/full"):
            refused(box, plain, "--copy", f"{device}:x", 66)
            refused(box, plain, "--mount", f"{device}:/x", 68)
    return f"skipped in output and copies, refused when named; none took {SECONDS:g} s more than a plain run"


def control(box):
    """Whoever opens the same FIFO does wait."""
    result = box.python("import os\nos.mkfifo('fifo'); print(open('fifo').read())", flags=["--timeout", "300ms"])
    assert result.verdict == "timeout", result
    return "a plain open waited until the time limit"
