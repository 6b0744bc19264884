"""RI-05: learn from error messages what the sandbox hides."""
import json

from escape.harness import escaped

TITLE = "host paths and secrets in error texts"
TRIED = ("missing and unusable commands, broken code in 3 languages, full disk, deep recursion, killed: all "
         "words searched for host paths and a secret")
WALLS = ["mount_namespace", "descriptors"]
SECRET = "bird-5521"
RUNS = {
    "traceback": ("import os\ndef f(): raise OSError(os.getcwd(), __file__, os.environ)\nf()", "python"),
    "syntax": ("def (", "python"),
    "recursion": ("def f(): f()\nf()", "python"),
    "compiler": ("int main(void) { return undeclared; }", "c"),
    "shell": ("cd /nowhere; cat /nowhere; . /nowhere; echo $0 $PWD $OLDPWD $HOME", "sh"),
    "missing": (["no-such-command-7431"], None),
    "directory": (["/usr"], None),
    "no program": (["/etc/passwd"], None),
    "disk": ("open('/workspace/f', 'w').write('x' * (9 << 20))", "python"),
    "killed": ("import os\nos.kill(os.getpid(), 11)", "python"),
}


def words(box, name, **more):
    """Everything coto and the program said."""
    what, lang = RUNS[name]
    place = box.folder / "tenant-alice"
    place.mkdir(exist_ok=True)
    done = box.run(what, lang or "python", flags=["--disk", "8m", "--artifacts", place / "out"], cwd=place,
                   env={"MY_TOKEN": SECRET}, may_refuse=True, **more)
    return json.dumps(done.json, ensure_ascii=False)


def attack(box):
    for name in RUNS:
        text = words(box, name)
        found = [word for word in (SECRET, str(box.folder), "tenant-alice", "/src/", "MY_TOKEN") if word in text]
        if found:
            escaped("READ", f"{name}: {found}")
        assert "main.py" in text or name not in ("traceback", "syntax"), text
    return f"{len(RUNS)} failures name only places of the sandbox"


def control(box):
    """With the caller's environment left in, the same traceback tells it."""
    text = words(box, "traceback", without=["env"])
    assert SECRET in text, text
    return "the traceback holds the caller's secret when the environment is inherited"
