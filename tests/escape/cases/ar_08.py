"""AR-08: names that do harm where they are printed: to a terminal, in a log, in XML, in a header, in a shell."""
import json
import os

from cli.helpers import on_terminal
from escape.harness import escaped
from escape.lib_artifacts import INTO_OUTPUT, collect
from escape.lib_files import folder, room

TITLE = "hostile names"
TRIED = "22 names: newlines, escapes, bidi marks, CRLF, quotes, options, bad UTF-8; in result, errors, report"
WALLS = ["output_limit"]
CONTROL = "option"

NAMES = [b"new\nline", b"car\r\nHeader: x", b"\x1b[31mred", b"\x1b]0;title\x07", b"\x9b31m", b"\xc2\x9b31m", b"-rf", b"--help",
         b"sp ace", b"$(id)", b"`id`", b"%s%n", b'"quote"', b"'", b"\\", b"\xff\xfe", b"\xe2\x80\xaecod.exe",
         b"\xef\xbb\xbfbom", b"..x", b"n" * 255, b"<x>&", b"\x7f\x08\x08"]
CODE = f"for n in {NAMES!r}: open(n, 'w').write('x')"
# What a terminal acts upon: controls, also in their two-byte form, and marks that reorder text. Newline and tab are text.
ACTIVE = ["\x1b", "\x07", "\x7f", "\x08", "\x9b", "\u202e"]


def harmless(where, text):
    """Bytes that are no UTF-8 would be shown as such."""
    for mark in ACTIVE:
        if mark in text.decode("utf-8", "replace"):
            escaped("WRITE", f"{where} passed {mark!r} on")


def attack(box):
    with room() as here:
        out, reports = here / "out", here / "reports"
        result = collect(box, CODE, out, ["--report", reports])
        assert sorted(os.listdir(os.fsencode(out))) == sorted(NAMES)
        assert len(result.json["artifacts"]) == len(NAMES)
        raw = result.done.out
        if raw.count(b"\n") != 1 or any(mark in raw for mark in (b"\x1b", b"\x07", b"\x7f", b"\x08", b"\r")):
            escaped("WRITE", "the result holds bytes that a terminal acts upon")
        told = {row.get("name_base64") or row["name"] for row in result.json["artifacts"]}
        assert len(told) == len(NAMES), told
        for report in reports.iterdir():
            json.loads(report.read_bytes())
            harmless("the report", report.read_bytes())
        count = errors(box, here)
        printed(box)
    return f"{len(NAMES)} names byte for byte on disk, escaped in result, report and {count} error messages"


def errors(box, here):
    """A name that cannot be written is told to a person: a link stands where a directory should go."""
    for number, name in enumerate(NAMES):
        out = folder(here / f"taken{number}")
        os.symlink(b"/", os.path.join(os.fsencode(out), name))
        done = box.plain(INTO_OUTPUT + f"os.mkdir({name!r}); open({name!r} + b'/x', 'w').write('x')", flags=["--artifacts", out])
        assert done.status == 73, done
        harmless(f"the error about {name!r}", done.err)
    return len(NAMES)


def printed(box):
    """Names that a program prints itself, on a terminal; coto's own closing line is coloured, so it is left out."""
    code = CODE + "\nimport sys\nfor n in " + repr(NAMES) + ": sys.stdout.buffer.write(n)"
    argv, env = box.command(code, flags=["--quiet"])
    if not box.prefix:
        _, seen = on_terminal(*argv[2:], env=env)
        harmless("the terminal", seen)


def control(box):
    """Passed on raw, they reach the terminal."""
    argv, env = box.command("import sys\nsys.stdout.buffer.write(b'\\x1b[31mred')", flags=["--raw"])
    if box.prefix:
        done = box.start_and_wait(argv, env=env)
        assert b"\x1b[31m" in done.out, done
    else:
        _, seen = on_terminal(*argv[2:], env=env)
        assert b"\x1b[31m" in seen, seen
    return "with --raw the escape reached the terminal"
