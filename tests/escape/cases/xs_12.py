"""XS-12: read the artifact, log or report of another tenant by its id.

By its id, over the service, it is a 404: tests/api/test_files.py
(test_another_tenants_files_do_not_exist), tests/api/test_records.py (test_tenants_see_their_own,
test_a_sandboxs_token_reads_no_records), tests/api/test_ap.py (test_ap_13_a_token_opens_its_own_sandbox_only). Here
from inside: what a run leaves lies in directories its caller named. A later run that is told all
their paths and the id finds nothing, and they are closed to other users of the host.
"""
import json
import stat

from escape.harness import escaped
from escape.lib_files import folder, room
from escape.lib_pair import look, nothing

TITLE = "artifacts and reports of another run"
TRIED = ("a run leaves an artifact and a report; the next is given their paths and the execution id "
         "and tries them all, also below /proc/N/root")
WALLS = ["mount_namespace"]
LOOK = """
paths, ident = json.loads(sys.argv[1]), sys.argv[2]
for path in paths:
    for prefix in ("", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../.."):
        found[prefix + path] = os.path.exists(prefix + path)
for top in ("/tmp", "/run", "/var", "/workspace", "/dev/shm", "/home", "/root"):
    found["id below " + top] = any(ident in " ".join([here, *dirs, *files]) for here, dirs, files in os.walk(top))
found["id in the environment"] = ident in repr(os.environ) or ident in open("/proc/1/environ", "rb").read().decode() \
    if os.access("/proc/1/environ", os.R_OK) else ident in repr(os.environ)
"""


def left(box, here):
    """(paths, id) of what a run with artifact and report left."""
    flags = ["--artifacts", folder(here / "artifacts"), "--report", folder(here / "reports")]
    done = box.sh("echo secret > output/answer", flags=flags)
    assert done.verdict == "ok" and done.json["artifacts"], done
    paths = [path for path in here.rglob("*") if path.is_file()]
    assert len(paths) == 2, paths
    for path in paths:
        if "reports" in path.parts and stat.S_IMODE(path.stat().st_mode) & 0o077:
            escaped("READ", f"the report is open to others: {path.stat().st_mode:o}")
    return [str(path) for path in paths], done.json["execution_id"]


def attack(box):
    with room() as here:
        paths, ident = left(box, here)
        return nothing(look(box, LOOK, args=[json.dumps(paths), ident])) + "; reports are 0600"


def control(box):
    with room() as here:
        paths, ident = left(box, here)
        found = look(box, LOOK, args=[json.dumps(paths), ident], without=["mount_namespace", "landlock"])
    assert any(found[path] for path in paths), found
    return "found by path with the host's root in sight"
