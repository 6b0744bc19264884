"""AR-11: a tree so deep that whoever walks or removes it runs out of stack, descriptors or name length."""
import errno

from cli.conftest import temporaries
from escape.harness import escaped
from escape.lib_artifacts import INTO_OUTPUT, LEVELS, collect, contents
from escape.lib_files import room

TITLE = "trees 10 000 levels deep"
TRIED = ("10 000 nested directories in output and workspace, then removal: on the host at level subprocess, inside with Landlock "
         "left out, under which each costs its depth; with it 1 000")
WALLS = ["inodes", "mount_namespace"]

DEEP = """
def dig(levels, name):
    top = os.open(".", os.O_RDONLY)
    for n in range(levels):
        try: os.mkdir(name)
        except OSError: break  # AppArmor knows no path of more than 8 KB
        os.chdir(name)
        if n in (3, 20): open("seen", "w").write("x")
    open("bottom", "w").write("x")
    os.fchdir(top)
    return n + 1
deep = dig(int(sys.argv[1]), "d")
dig(200, "n" * 200)
open("small", "w").write("x")
os.chdir(".."); dig(500, "w")
os.chmod("w", 0)
print(deep)
"""


def attack(box):
    words = []
    before = temporaries()
    with room() as here:
        for level, depth, without in (("process", 1000, []), ("process", 10000, ["landlock"]), ("subprocess", 10000, [])):
            out = here / f"{level}{depth}"
            result = collect(box, DEEP, out, [*LEVELS[level], "--timeout", "2m"], args=[depth], timeout=180,
                             without=without)
            assert result.verdict == "ok", result
            words.append(f"{result.text} levels")
            names = contents(out)
            assert "small" in names and "d/d/d/d/seen" in names, names
            if max(map(len, names)) > 4096:
                escaped("WRITE", "a name longer than PATH_MAX came out")
    left = temporaries() - before
    if left & box.host.files():
        escaped("WRITE", f"left behind: {left}")
    return f"{', '.join(words)}: shallow files came back, the rest was counted; nothing left"


def control(box):
    """By name the bottom cannot even be reached: whoever removes by names leaves it."""
    code = INTO_OUTPUT + DEEP.replace('os.chmod("w", 0)', "") + """
try: os.stat("output/" + "/".join(["d"] * 2100))
except OSError as reason: print(reason.errno)
"""
    result = box.python(code, args=[2100], without=["landlock"])
    assert result.text.split() == ["2100", str(errno.ENAMETOOLONG)], result
    return "by name: ENAMETOOLONG"
