"""AR-14: the name under which something is brought in leads elsewhere, or is no name."""
from escape.harness import escaped
from escape.lib_files import file, refusal, room

TITLE = "hostile target names"
TRIED = "--copy SRC:DST with .., absolute, empty, 4096 bytes, NUL in a policy file, into /proc and /dev; ./a//b normalised"
WALLS = ["mount_namespace"]

BAD = ["..", "../x", "a/../x", "a/..", "/etc/x", "/etc/passwd", "/usr/bin/x", "/proc/self/mem", "/proc/1/x", "/dev/x",
       "/dev/shm/../../etc/x", "/", "/workspace/../etc/x", "/workspace2/x", "/tmpx", "a" * 256, "/workspace/" + "b/" * 2200,
       "/workspace", ".", "//", "/run/x", "/var/x"]
GOOD = {"./": "/workspace/source", "./a//b": "/workspace/a/b", "a/./b/": "/workspace/a/b/source",
        "/tmp//x": "/tmp/x", "a..b": "/workspace/a..b", "...": "/workspace/...", " ": "/workspace/ ", "%s": "/workspace/%s"}
POLICIES = ['{"copy": ["%s:a\\u0000b"]}', '{"copy": ["%s:\\ud800"]}', '{"copy": ["%s:../x"]}', '{"copy": [7]}',
            '{"copy": {"a": "b"}}', '{"workdir": "/a\\u0000b"}', '{"copy": ["\\u0000"]}']


def attack(box):
    words = set()
    with room() as here:
        source = file(here / "source", "data")
        for target in BAD:
            result = box.run(["true"], flags=["--copy", f"{source}:{target}"], may_refuse=True)
            words.add(refusal(result, 64, 65))
        for target, place in GOOD.items():
            found = box.run(["cat", place], flags=["--copy", f"{source}:{target}"]).text
            assert found == "data", (target, place, found)
        for number, text in enumerate(POLICIES):
            policy = file(here / f"policy{number}.json", text.replace("%s", str(source)))
            result = box.run(["true"], flags=["--policy", policy], may_refuse=True)
            if not result.error:
                escaped("WRITE", f"accepted: {text}")
            words.add(refusal(result, 64, 65, 66))
    return f"{len(BAD)} names and {len(POLICIES)} policies: {', '.join(sorted(words))}"


def control(box):
    """Joined by text, such a name does lead out."""
    with room() as here:
        work = here / "work"
        work.mkdir()
        (work / "../x").write_text("evil")
        assert (here / "x").read_text() == "evil"
        source = file(here / "source", "data")
        assert box.run(["cat", "a/b"], flags=["--copy", f"{source}:a/b"]).text == "data"
    return "joined by text '../x' left the directory; a plain name is accepted"
