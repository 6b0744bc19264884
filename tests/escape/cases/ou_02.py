"""OU-02: bytes that are no text, or text that is not what it looks like."""
import json

from cli.helpers import on_terminal
from escape.harness import escaped

TITLE = "NUL, bad UTF-8, controls, bidi, U+2028"
TRIED = ("all 256 bytes, truncated and overlong UTF-8, surrogates, C1, bidi, U+2028 on both streams: --json, "
         "plain, terminal")
WALLS = ["output_limit"]
CONTROL = "option"
ODD = [bytes(range(256)), b"\xc0\x80\xc1\xbf", b"\xed\xa0\x80\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xe2\x80",
       b"\xff\xfe\x00", "\u202e\u2066\u2028\u2029\u061c\u200e\ufeff\x85\x9b31m".encode(),
       b'"\\\x00\x1f\x7f', "\U0010ffff\ufffe\uffff".encode()]
DATA = b"|".join(ODD)
CODE = "import sys, os\ndata = bytes.fromhex(sys.argv[1])\nos.write(1, data); os.write(2, data[::-1])"
# What a terminal acts upon, or reads as another order of letters.
DANGEROUS = [chr(n) for n in (*range(0, 9), 11, 12, *range(14, 32), *range(127, 160), 0x61c, 0x200e, 0x200f,
                              *range(0x2028, 0x202f), *range(0x2066, 0x206a))]


def attack(box):
    done = box.python(CODE, args=[DATA.hex()])
    if (done.out, done.err) != (DATA, DATA[::-1]):
        escaped("CRASH", "bytes were lost in the result object")
    text = json.dumps(done.json["stdout"], ensure_ascii=False)
    assert json.loads(text) == done.json["stdout"] and "\ufffd" in done.json["stdout"]
    plain = box.plain(CODE, args=[DATA.hex()], flags=["--quiet"])
    if (plain.out, plain.err) != (DATA, DATA[::-1]):
        escaped("CRASH", "bytes were lost in a pipe")
    if box.situation not in ("root", "user"):
        return "lossless in JSON and pipes"
    shown = shown_on_terminal()
    left = sorted({hex(ord(c)) for c in shown.decode(errors="surrogateescape") if c in DANGEROUS or ord(c) > 0xdc7f
                   and ord(c) < 0xdd00})
    if left:
        escaped("WRITE", f"reach a terminal: {left}")
    return "lossless in JSON and pipes; a terminal gets no control, C1, bidi or bad byte"


def shown_on_terminal(*flags):
    """What a terminal receives of the program; coto's own colours and ends of lines aside."""
    code = CODE.replace("; os.write(2, data[::-1])", "")
    _, seen = on_terminal("--quiet", *flags, "--lang", "python", "-c", code, DATA.hex())
    return seen.replace(b"\r", b"")


def control(box):
    shown = shown_on_terminal("--raw")
    assert "\u202e".encode() in shown and b"\x1b" in shown and b"\xff\xfe" in shown, shown
    return "with --raw the terminal gets every byte"
