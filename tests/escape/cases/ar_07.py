"""AR-07: a FIFO, a socket or a device among the files, so that whoever reads it waits for ever."""
import os
import socket

from escape.harness import escaped
from escape.lib_artifacts import LEVELS, collect, contents
from escape.lib_files import file, folder, refusal, room

TITLE = "FIFOs, sockets, devices as files"
TRIED = "in the output, as the output, in and as --copy, as --mount; each within 2 s"
WALLS = ["mount_namespace"]

SPECIALS = """
import socket
os.mkfifo("fifo"); os.mkdir("d"); os.mkfifo("d/fifo")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
os.symlink("/dev/zero", "zero"); os.symlink("/dev/stdin", "stdin"); os.symlink("fifo", "alias")
open("file", "w").write("f")
"""
REPLACED = "os.chdir('..'); os.rmdir('output'); os.mkfifo('output')"
SECONDS = 2


def quick(result):
    if result.seconds > SECONDS + 20 * (result.seconds > 15):  # the machine may have been stopped for a while
        escaped("CRASH", f"it took {result.seconds:.1f} s")
    return result


def attack(box):
    with room() as here:
        for number, level in enumerate(LEVELS.values()):
            out = here / f"out{number}"
            result = quick(collect(box, SPECIALS, out, level))
            assert set(contents(out)) == {"file"} and result.json["artifacts_skipped"] == 6, result.json
            quick(collect(box, REPLACED, here / f"fifo{number}", level))
        source = folder(here / "in")
        os.mkfifo(source / "fifo")
        file(source / "file", "f")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(source / "socket"))
            result = quick(box.sh("ls in", flags=["--copy", f"{source}:in"]))
            assert result.text == "file", result
            for name in ("fifo", "socket"):
                for flag in ("--copy", "--mount"):
                    refusal(quick(box.run(["true"], flags=[flag, f"{source}/{name}:/tmp/x"], may_refuse=True)), 66, 68)
        for device in ("/dev/zero", "/dev/null", "/dev/full"):
            refusal(quick(box.run(["true"], flags=["--copy", f"{device}:x"], may_refuse=True)), 66)
            refusal(quick(box.run(["true"], flags=["--mount", f"{device}:/x"], may_refuse=True)), 68)
    return "skipped in output and copies, refused when named, none waited for"


def control(box):
    """Whoever opens the same FIFO does wait."""
    result = box.python("import os\nos.mkfifo('fifo'); print(open('fifo').read())", flags=["--timeout", "300ms"])
    assert result.verdict == "timeout", result
    return "a plain open waited until the time limit"
