"""AR-01: a name in the output is a link to a file of the host, and whoever collects reads it."""
from escape.lib_artifacts import LEVELS, collect, followed, no_secret
from escape.lib_files import SECRET, room, secret

TITLE = "links in the output"
TRIED = "11 kinds of link (absolute, relative, magic, chains, dangling) collected at both levels"
WALLS = ["mount_namespace", "beneath"]

CODE = """
host = sys.argv[1]
for name, target in {
    "absolute": host, "up": "../" * 12 + host.lstrip("/"), "magic": "/proc/self/root" + host,
    "init": "/proc/1/root" + host, "passwd": "/etc/passwd", "environ": "/proc/self/environ", "fd": "/proc/self/fd/0",
    "parent": "..", "root": "/", "dangling": "/nothing/there", "self": "self",
}.items():
    os.symlink(target, name)
os.symlink("absolute", "chain"); os.symlink("chain", "chain2.txt")
open("real", "w").write("mine"); os.link("real", "hard"); os.symlink("real", "alias")
os.mkdir("d"); os.symlink(host, "d/deep")
"""
LINKS = 15


def attack(box):
    words = []
    with room() as here:
        host = secret(here / "host-secret")
        for number, level in enumerate(LEVELS.values()):
            out = here / f"out{number}"
            result = collect(box, CODE, out, level, args=[host])
            assert result.verdict == "ok", result
            count = no_secret(result, out)
            assert result.json["artifacts_skipped"] == LINKS, result.json
            words.append(f"{count} files, {LINKS} links skipped")
    return f"inside: {words[0]}; on the host: {words[1]}"


def control(box):
    with room() as here:
        host = secret(here / "host-secret")
        out = followed(box, here, CODE.replace('"parent": "..", "root": "/", "dangling"', '"dangling"'), args=[host])
        assert (out / "absolute").read_text() == SECRET and (out / "d/deep").read_text() == SECRET
    return "coto's own collector, made to follow links, brought the host's file"
