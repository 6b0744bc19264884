"""PS-03: see who else is there."""
from escape.harness import escaped

TITLE = "processes of others"
TRIED = "/proc listed, /proc/N opened and signal 0 sent for every N up to 70 000, kernel threads looked for"
WALLS = ["pid_namespace"]
LOOK = """
import json, os
listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
hidden = {n for n in range(1, 70000) if os.path.exists(f"/proc/{n}/stat")}
def answers(n):
    try: os.kill(n, 0)
    except ProcessLookupError: return False
    except PermissionError: pass
    return True
alive = {n for n in range(1, 70000) if answers(n)}
names = []
for n in listed:
    try: names.append(open(f"/proc/{n}/comm").read().strip())
    except FileNotFoundError: pass  # it has ended
print(json.dumps([sorted(listed | hidden | alive), os.getpid(), sorted(names)]))
"""


def attack(box):
    pids, own, names = box.inside(LOOK)
    if not set(pids) <= {1, own}:
        escaped("READ", f"pids {pids}, names {names}")
    return f"{len(pids)} processes: {', '.join(names)}"


def control(box):
    pids, own, names = box.inside(LOOK, without=["pid_namespace", "landlock"])
    assert len(set(pids) - {own}) > 2, pids
    return f"{len(pids)} processes of the host in sight"
