"""RI-03: names that a user may choose, and that stand in files and reports afterwards."""
import json

from escape.harness import escaped

TITLE = "names chosen by the user"
TRIED = ("16 hostile values (newline, quotes, NUL-like, 64 KiB, path, option, bidi) for 4 options that take a "
         "name")
WALLS = ["mount_namespace"]
HOSTILE = ["a\nb", "a:b", 'a"b', "a'b", "a b", "../x", "a/b", "-rf", "", "a" * 65536, "\u202ea", "é",
           "a\x1b[2J", "A\tB", "%s", "."]
# option, values that it takes by its own rules
OPTIONS = {"--hostname": {"."}, "--user-name": set(), "--profile": set(), "--prompt-hash": {""}}


def outcome(box, option, value):
    done = box.run(["true"], flags=[f"{option}={value}"], may_refuse=True)
    if not done.error:
        return "taken"
    assert 64 <= done.status <= 72 and done.error["code"] in ("usage", "policy"), done
    return "too long a message" if len(json.dumps(done.error)) > 4000 else "refused"


def attack(box):
    words = []
    for option in OPTIONS:
        for value in HOSTILE:
            word = outcome(box, option, value)
            words.append(word)
            if word != "refused" and value not in OPTIONS[option]:
                escaped("WRITE", f"{option}={value[:40]!r}: {word}")
    plain = box.plain(["true"], flags=["--hostname=a\x1b[2J"])
    if b"\x1b" in plain.err:
        escaped("WRITE", f"the message carries the escape: {plain.err!r}")
    return f"{words.count('refused')} of {len(words)} refused, the message is escaped"


def control(box):
    """A name within the rules is taken, and stands where the program sees it."""
    done = box.sh("cat /etc/hostname; id -un", flags=["--hostname", "judge-7", "--user-name", "alice"])
    assert done.text.split() == ["judge-7", "alice"], done
    return "judge-7 and alice are taken"
