"""Every number of every profile, read from inside or from the kernel (R2.2, R2.3, R3.1, R3.2)."""
import pytest
import yaml

from .helpers import CGROUPS, CPUS, ROOT, SOURCE, coto, inside, ok, run, run_json, running, sh, status_of
from .test_limits import COUNT, kernel_limits
from .test_walls import NAMESPACES

MB = 1 << 20
# What the documents promise, by hand: never taken from profiles/.
PROMISED = {
    "default": dict(uid=10000, memory=512 * MB, cpus=2000, pids=128, tmp=64 * MB, work="/workspace",
                    disk=256 * MB, timeout="30000ms", output=None, name="sandbox"),
    "ia-libre": dict(uid=9999, memory=512 * MB, cpus=2000, pids=64, tmp=64 * MB, work="/work",
                     disk=256 * MB, timeout="30000ms", output=None, name="sandbox"),
    "gemini": dict(uid=1001, memory=128 * MB, cpus=500, pids=50, tmp=64 * MB, work="/workspace",
                   disk=256 * MB, timeout="30000ms", output=None, name="sandbox"),
    "antigravity": dict(uid=10000, memory=256 * MB, cpus=500, pids=128, tmp=64 * MB, work="/workspace",
                        disk=256 * MB, timeout="30000ms", output=10240, name="sandbox"),
    "deepresearch": dict(uid=10000, memory=2048 * MB, cpus=2000, pids=128, tmp=64 * MB, work="/workspace",
                         disk=256 * MB, timeout="30000ms", output=None, name="deepresearch"),
    "enis": dict(uid=10000, memory=512 * MB, cpus=1600, pids=128, tmp=256 * MB, work="/workspace",
                 disk=512 * MB, timeout="30000ms", output=None, name="sandbox"),
}
EXTRA = {"deepresearch": {"/var/tmp", "/run", "/var/log/deepresearch"}}
WRITABLE = {"enis": {"/workspace/output", "/tmp", "/dev/shm"}}

PROBE = """
import os, json, pwd
def size(at):
    v = os.statvfs(at)
    return v.f_blocks * v.f_frsize
def takes(at):
    try:
        open(os.path.join(at, 'probe'), 'x').close()
        return True
    except OSError:
        return False
places = [p.split()[4] for p in open('/proc/self/mountinfo')] + [os.getcwd(), '/', '/etc', '/var', '/run',
          '/var/tmp', os.getcwd() + '/output']
print(json.dumps({'uid': os.getuid(), 'gid': os.getgid(), 'name': pwd.getpwuid(os.getuid()).pw_name,
    'work': os.getcwd(), 'home': os.environ['HOME'], 'tmp': size('/tmp'), 'disk': size(os.getcwd()),
    'writable': sorted({p for p in places if takes(p)})}))
"""


@pytest.mark.parametrize("name", PROMISED)
def test_profile_from_inside(name):
    want = PROMISED[name]
    seen = inside(PROBE, "--profile", name)
    assert seen["uid"] == seen["gid"] == want["uid"]
    assert seen["name"] == want["name"] and seen["work"] == seen["home"] == want["work"]
    assert seen["tmp"] == want["tmp"] and seen["disk"] == want["disk"]
    places = WRITABLE.get(name, {want["work"], want["work"] + "/output", "/tmp", "/dev/shm"})
    if name == "deepresearch":
        places = places | EXTRA[name]
    else:
        places = places | ({"/var/tmp"} if "/var/tmp" in seen["writable"] else set())  # a link to /tmp
    assert set(seen["writable"]) == places


@pytest.mark.parametrize("name", PROMISED)
def test_profile_in_the_kernel(name):
    want = PROMISED[name]
    with running("--profile", name, "--", "sh", "-c", "echo ready; read x") as it:
        program = it.program()
        if CGROUPS:
            found = kernel_limits(program)
            found["cpus"] = min(found["cpus"], want["cpus"]) if want["cpus"] >= CPUS * 1000 else found["cpus"]
            assert {key: found[key] for key in ("memory", "swap", "cpus", "pids")} == \
                {"memory": want["memory"], "swap": 0, "cpus": want["cpus"], "pids": want["pids"]}
            assert found["iops"] == ({1000} if name == "enis" else set())
        status = status_of(program)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert int(status["CapBnd"], 16) == (0xc9 if name == "deepresearch" else 0)
    result = run_json("--profile", name, "--", "true")
    assert result["profile"] == name and result["walls"]["timeout"]["value"] == want["timeout"]
    assert result["walls"]["output_limit"]["value"] == (want["output"] and str(want["output"]))
    missing = set() if ROOT else {"unique_uid"}
    if not CGROUPS:
        missing |= {"memory"} | ({"iops"} if name == "enis" else set())
    if not CGROUPS and want["cpus"] < CPUS * 1000:
        missing.add("cpus")
    assert set(result["missing_walls"]) == missing
    assert all(result["walls"][wall]["up"] for wall in NAMESPACES.values())


@pytest.mark.parametrize("name, limit", [("ia-libre", 64), ("gemini", 50)])
def test_profile_pids_limit_holds(name, limit):
    assert inside(COUNT, "--profile", name) == [limit, "EAGAIN"]


def test_gemini_out_of_memory():
    """R1.4, R3.2: 128 MB, exit 137."""
    code = "x = bytearray(180 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"
    result = run_json("--profile", "gemini", "--lang", "python", "-c", code)
    if CGROUPS:
        assert (result["verdict"], result["exit_status"]) == ("oom", 137)
        assert result["memory_peak_bytes"] <= 128 * MB
    else:
        assert "memory" in result["missing_walls"] and result["exit_status"] != 0


def test_antigravity_output_is_cut():
    """R1.2: 10 KB, and the result says so."""
    result = run_json("--profile", "antigravity", "--", "head", "-c", "20000", "/dev/zero")
    assert result["stdout_truncated"] and result["stdout_bytes_kept"] == 10240
    assert result["stdout_bytes_seen"] == 20000 and result["exit_code"] == 0


def test_enis_writes_only_where_it_may():
    """R2.3: /workspace readable, /workspace/output and /tmp writable, the rest denied."""
    assert sh("cat main.sh >/dev/null 2>&1; touch x 2>/dev/null || echo no; touch output/y && echo yes",
              "--profile", "enis").split() == ["no", "yes"]
    result = run_json("--profile", "enis", "--", "sh", "-c", "echo a > output/a")
    assert [row["name"] for row in result["artifacts"]] == ["a"]


def test_deepresearch_places_are_tmpfs():
    """R2.3: tmpfs for /tmp, /var/tmp, /run and the log folder."""
    lines = sh("cat /proc/self/mountinfo", "--profile", "deepresearch").splitlines()
    kinds = {line.split()[4]: line.split(" - ")[1].split()[0] for line in lines}
    for at in EXTRA["deepresearch"] | {"/tmp", "/workspace"}:
        assert kinds.get(at) == "tmpfs", at


def test_profiles_verb():
    text = ok(coto("profiles")).decode()
    assert [line.split()[0] for line in text.splitlines()[1:]] and \
        {line.split()[0] for line in text.splitlines()[1:]} == set(PROMISED)
    shown = ok(coto("profiles", "show", "gemini")).decode()
    assert "1001:1001" in shown and "128m" in shown and "R3.2" in shown
    done = coto("profiles", "show", "gemina")
    assert done.status in (64, 65) and b"gemini" in done.err


def test_shipped_files_are_what_is_built_in():
    """profiles/NAME.yaml, read by a reader of its own, says what `profiles show` says."""
    for name in PROMISED:
        said = yaml.safe_load((SOURCE / f"profiles/{name}.yaml").read_text()) or {}
        rows = {line.split()[0]: line.split(None, 1)[1] for line in
                ok(coto("profiles", "show", name)).decode().splitlines()[3:]}
        for key, value in said.items():
            first = value[0] if isinstance(value, list) else value
            assert rows[key].startswith(str(first)), (name, key)


def test_profile_by_environment():
    assert inside("import os; print(os.getuid())", env={"COTO_PROFILE": "ia-libre"}) == 9999


def test_what_is_not_there_yet_is_refused():
    done = run("--network", "allow-list", "--network-allow", "inference-service:443", "--", "true")
    assert done.status == 69 and b"not available at this level" in done.err
    done = run("--isolation", "vm", "--", "true")
    assert done.status == 69 and b"not available at this level" in done.err
