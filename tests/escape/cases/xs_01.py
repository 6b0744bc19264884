"""XS-01: read or plant files where another sandbox keeps its own."""
import json
import secrets

from escape.lib_pair import look, neighbour, nothing

TITLE = "temporary files, caches, package stores"
TRIED = ("a neighbour leaves a file in every place it may write to; looked for by path, and the "
         "file systems compared by number")
WALLS = ["mount_namespace"]
PLACES = ["/tmp", "/var/tmp", "/dev/shm", "/workspace", "/workspace/output", "/root/.cache", "/home",
          "/run", "/run/user/10000", "/var/cache", "/var/lib", "/usr/local/lib", "/root/.npm"]
LEAVE = """
name, left = sys.argv[1], []
for place in %r:
    if attempt(lambda: open(f"{place}/{name}", "x")) == "done": left.append(place)
say = {place: os.stat(place).st_dev for place in left}
""" % PLACES
CLEAN = "for place in left: attempt(os.unlink, f'{place}/{name}')"
LOOK = """
for place, device in json.loads(sys.argv[2]).items():
    found[place] = os.path.exists(f"{place}/{sys.argv[1]}")
    found["device of " + place] = os.stat(place).st_dev == device
"""


def seen(box, **more):
    name = "coto-test-" + secrets.token_hex(8)
    with neighbour(box, LEAVE, CLEAN, args=[name], **more) as (said, _):
        return look(box, LOOK, args=[name, json.dumps(said)], **more)


def attack(box):
    found = seen(box)
    assert len(found) >= 8, found
    return nothing(found)


def control(box):
    found = seen(box, without=["mount_namespace", "landlock"])
    assert found["/tmp"] and found["/dev/shm"], found
    return f"found in {', '.join(place for place in found if found[place] and place[0] == '/')}"
