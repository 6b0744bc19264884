"""The docker level with a real engine: flags, walls, limits, errors."""
import json
import os
import shutil
import subprocess

import pytest

import engine
from cli.helpers import coto, environment, only, package_version, refused, run, run_json, COTO
from .helpers import FLAGS, Sleeping, on, result_on

MB = 1 << 20
# What the documents promise, by hand: never taken from profiles/.
PROMISED = {
    "ia-libre": dict(user="9999:9999", pids=64, memory=512, cpus=2.0, caps=[],
                     tmpfs={"/tmp": 64, "/work": 256}),
    "gemini": dict(user="1001:1001", pids=50, memory=128, cpus=0.5, caps=[],
                   tmpfs={"/tmp": 64, "/workspace": 256}),
    "deepresearch": dict(user="10000:10000", pids=128, memory=2048, cpus=2.0,
                         caps=["CHOWN", "FOWNER", "SETGID", "SETUID"],
                         tmpfs={"/tmp": 64, "/workspace": 256, "/var/tmp": 64, "/run": 64,
                                "/var/log/deepresearch": 64}),
    "enis": dict(user="10000:10000", pids=128, memory=512, cpus=1.6, caps=[],
                 tmpfs={"/tmp": 256, "/workspace": 512}),
    "antigravity": dict(user="10000:10000", pids=128, memory=256, cpus=0.5, caps=[],
                        tmpfs={"/tmp": 64, "/workspace": 256}),
}


def names(list_of_caps):
    return sorted(name.removeprefix("CAP_") for name in list_of_caps or [])


def option(text):
    return dict(word.partition("=")[::2] for word in text.split(","))


def test_no_terminals(docker):
    """An engine does not limit them; docs/SANDBOX.md tells why a limit has to be."""
    code = ("import os\ntry: os.openpty()\nexcept OSError as error: print(error.errno)\n"
            "print([line for line in open('/proc/self/mountinfo') if ' - devpts ' in line])")
    done = on(docker, "--lang", "python", "-c", code)
    assert done.out == b"2\n[]\n", done
    refused(on(docker, "--ptys", "1", "--", "true"), 69, "ptys", "engines do not limit them")


@pytest.mark.parametrize("profile", PROMISED)
def test_inspect_shows_every_flag_of_the_profile(docker, profile):
    want = PROMISED[profile]
    with Sleeping(docker, "--profile", profile):
        shown = docker.of_execution()
    config, host = shown["Config"], shown["HostConfig"]
    assert config["User"] == want["user"]
    assert host["NetworkMode"] == "none" and list(shown["NetworkSettings"]["Networks"] or {}) in ([], ["none"])
    assert names(host["CapDrop"]) == ["ALL"] and names(host["CapAdd"]) == want["caps"]
    assert host["ReadonlyRootfs"] is True and host["Privileged"] is False and host["AutoRemove"] is True
    assert host["PidsLimit"] == want["pids"] and host["OomScoreAdj"] == 1000
    assert host["Memory"] == host["MemorySwap"] == want["memory"] * MB  # no swap beside it
    assert host["NanoCpus"] == want["cpus"] * 1e9
    assert host["Tmpfs"].pop("/dev/pts").startswith("ro,")  # in the place of the engine's terminals
    assert {at: int(option(text)["size"]) // MB for at, text in host["Tmpfs"].items()} == want["tmpfs"]
    for text in host["Tmpfs"].values():
        assert {"nosuid", "nodev", "rw"} <= set(option(text))
    assert (host["IpcMode"], host["CgroupnsMode"]) == ("private", "private")
    assert host["LogConfig"]["Type"] == "none" and host["Runtime"] == "runc"
    assert [(m["Destination"], m["RW"]) for m in shown["Mounts"]] == [("/.coto-init", False)]
    options = host["SecurityOpt"]
    assert "no-new-privileges" in options and sum(item.startswith("seccomp={") for item in options) == 1
    assert config["Labels"]["coto.profile"] == profile and config["Labels"]["coto.execution"] in shown["Name"]


def test_seccomp_of_the_container_is_our_table(docker):
    with Sleeping(docker):
        options = docker.of_execution()["HostConfig"]["SecurityOpt"]
    assert options[0] == "no-new-privileges" and options[1].startswith("seccomp=") and len(options) == 2
    profile = json.loads(options[1].removeprefix("seccomp="))
    allowed = {name for row in profile["syscalls"] if row["action"] == "SCMP_ACT_ALLOW" for name in row["names"]}
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert "read" in allowed and not {"mount", "umount2", "reboot", "init_module", "delete_module", "ptrace",
                                      "bpf", "keyctl", "add_key"} & allowed


PROBE = """
import json, os
def tries(what):
    try:
        what()
        return 0
    except OSError as error:
        return error.errno
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
print(json.dumps({
    'uid': os.getuid(), 'gid': os.getgid(), 'groups': os.getgroups(),
    'caps': int(status['CapEff'], 16) | int(status['CapPrm'], 16) | int(status.get('CapAmb', '0'), 16),
    'bounding': int(status['CapBnd'], 16), 'interfaces': [line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line],
    'pid1': open('/proc/1/cmdline').read().split(chr(0))[0],
    'root': tries(lambda: open('/new', 'w')), 'etc': tries(lambda: open('/etc/new', 'w')),
    'work': tries(lambda: open('new', 'w')), 'output': tries(lambda: open('output/new', 'w')),
    'tmp': tries(lambda: open('/tmp/new', 'w')),
    'memory': tries(lambda: open('/proc/1/mem', 'rb'))}))
"""


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_from_inside(docker, runtime):
    done = on(docker, "--runtime", runtime, "--profile", "ia-libre", "--lang", "python", "-c", PROBE)
    assert done.status == 0, done
    seen = json.loads(done.out)
    assert (seen["uid"], seen["gid"]) == (9999, 9999) and set(seen["groups"]) <= {9999}
    assert seen["caps"] == seen["bounding"] == 0
    assert set(seen["interfaces"]) <= {"lo"} and seen["pid1"] == "/.coto-init"
    assert seen["root"] and seen["etc"] and seen["memory"]
    assert seen["work"] == seen["output"] == seen["tmp"] == 0


def test_init_cannot_be_killed_by_its_program(docker):
    """The kernel protects the first process of a pid namespace; gVisor's does not, there the run is lost."""
    assert on(docker, "--", "sh", "-c", "kill -9 1; echo on").out == b"on\n"
    assert result_on(docker, "--runtime", "runsc", "--", "sh", "-c", "kill -9 1; sleep 9")["verdict"] == "lost"


def test_only_output_is_writable_where_the_policy_says_so(docker):
    seen = json.loads(on(docker, "--profile", "enis", "--lang", "python", "-c", PROBE).out)
    assert seen["work"] and seen["output"] == seen["tmp"] == 0
    refused(on(docker, "--profile", "enis", "--runtime", "runsc", "--", "echo", "ran"), 72, "Landlock")


def test_walls_are_read_back(docker):
    result = result_on(docker, "--", "true")
    assert result["driver"] == result["isolation"] == "docker" and "runc" in result["runtime"]
    assert set(result["missing_walls"]) == {"user_namespace", "unique_uid"}
    walls = result["walls"]
    assert walls["net_namespace"]["value"].startswith("net:[") and walls["landlock"]["up"]
    assert walls["memory"]["value"] == str(512 * MB) and "cgroup" in walls["memory"]["mechanism"]
    assert walls["uid"]["value"] == "10000 inside, 10000 on the host"
    assert result["memory_peak_bytes"] > 100_000 and result["pids_peak"] >= 1
    refused(on(docker, "--require", "unique_uid", "--", "echo", "ran"), 72, "unique_uid")


def test_gvisor_has_a_kernel_of_its_own(docker):
    result = result_on(docker, "--runtime", "runsc", "--", "uname", "-r")
    assert "runsc" in result["runtime"] and result["stdout"].strip() != os.uname().release
    assert {"landlock", "pids", "inodes"} <= set(result["missing_walls"])
    assert "guest kernel" in result["walls"]["seccomp"]["mechanism"]


def test_noexec(docker):
    script = "cp /bin/true t; ./t || echo refused; cp t /tmp/t; /tmp/t || echo refused"
    assert on(docker, "--noexec", "--", "sh", "-c", script).out == b"refused\n" * 2
    assert on(docker, "--", "sh", "-c", script).out == b""


# ---- limits ----

@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_out_of_memory(docker, runtime):
    result = result_on(docker, "--runtime", runtime, "--memory", "64m", "--lang", "python",
                       "-c", "x = bytearray(200 << 20)")
    assert (result["verdict"], result["exit_status"]) == ("oom", 137), result


def test_process_limit(docker):
    code = "import os, time\nfor _ in range(40):\n    if os.fork() == 0: time.sleep(9); os._exit(0)"
    result = result_on(docker, "--pids", "10", "--lang", "python", "-c", code)
    assert result["verdict"] == "pids" and result["limit"] == "pids", result
    assert result_on(docker, "--pids", "1", "--", "true")["verdict"] == "ok"


def test_cpu_time(docker):
    result = result_on(docker, "--cpu-time", "300ms", "--lang", "python", "-c", "while True: pass")
    assert (result["verdict"], result["limit"]) == ("timeout", "cpu-time"), result


def test_disk(docker):
    script = "head -c 3000000 /dev/zero > big"
    assert result_on(docker, "--disk", "1m", "--", "sh", "-c", script)["verdict"] == "disk"
    assert result_on(docker, "--disk", "4m", "--", "sh", "-c", script)["verdict"] == "ok"


# ---- how it is chosen ----

def test_environment_chooses(docker):
    env = {**docker.env, "SANDBOX_TYPE": "docker", "DOCKER_IMAGE": engine.IMAGE, "DOCKER_MEMORY_LIMIT": "96m",
           "DOCKER_CPU_LIMIT": "0.5", "COTO_ALLOW_RUNTIME": "runc"}
    result = json.loads(run("--json", "--lang", "python", "-c", "print(6 * 7)", env=env).out)
    assert result["driver"] == "docker" and result["stdout"] == "42\n"
    assert result["walls"]["memory"]["value"] == str(96 * MB) and result["walls"]["cpus"]["value"] == "500"
    refused(run("--", "true", env={**env, "DOCKER_NETWORK_ENABLED": "true"}), 69, "no network")


def test_doctor_knows_the_engine(docker):
    report = json.loads(coto("doctor", "--json", env=docker.env).out)
    assert report["drivers"]["docker"]["usable"] and report["drivers"]["docker"]["walls"]["memory"]["present"]


@only(package_version("runc").startswith("1.1.5"))
def test_an_engine_of_debian_12_is_refused_unless_its_runc_is_named(docker):
    """BK-02: the engine tells its package's version."""
    version = package_version("runc")
    plain = ("--isolation", "docker", "--image", engine.IMAGE)
    message = refused(run(*plain, "--", "echo", "ran", env=docker.env), 72, version, "CVE-2025-31133", "--allow-runtime")
    assert "CVE-2024-21626" not in message
    result = run_json(*plain, "--allow-runtime", f"runc@{version}", "--", "true", env=docker.env)
    assert result["verdict"] == "ok" and "CVE-2025-31133" in result["runtime"], result
    assert "CVE-" not in result_on(docker, "--runtime", "runsc", "--", "true")["runtime"]


# ---- errors that have a remedy ----

def test_unknown_image(docker):
    done = on(docker, "--image", "no/such:image", "--", "echo", "ran")
    refused(done, 66, "no image 'no/such:image'", "docker pull")


def test_image_without_the_interpreter(docker):
    done = on(docker, "--image", engine.EMPTY, "--lang", "python", "-c", "1")
    refused(done, 67, "'python3' is not in the image", "--image")


def test_runtime_that_is_not_registered(docker):
    refused(on(docker, "--runtime", "nosuch", "--", "echo", "ran"), 69, "no runtime 'nosuch'", "daemon.json")


def test_a_runtime_with_a_kernel_of_its_own_by_name_only(docker):
    """A guest's kernel needs hundreds of tasks; for programs on the host's that is not the limit that was asked for."""
    flags = ["--runtime", "not-kata", "--pids", "20"]
    refused(on(docker, *flags, "--require", "pids", "--", "true"), 72, "'pids' is not up")
    result = result_on(docker, *flags, "--", "true")
    assert result["verdict"] == "ok" and not result["walls"]["pids"]["up"] and "pids" in result["missing_walls"], result


def test_runtime_that_does_not_start(docker):
    refused(on(docker, "--runtime", "ghost", "--", "echo", "ran"), 71, "ghost", "docker run", "fork/exec /nonexistent/runtime")


def test_image_with_a_volume(docker):
    status, answer = docker.call("POST", "/images/create?fromSrc=-&repo=coto-test-volume&tag=latest&changes=VOLUME%20/data",
                                 open(docker.room / "empty.tar", "rb"), **{"Content-Type": "application/x-tar"})
    assert status == 200, answer
    done = on(docker, "--image", "coto-test-volume:latest", "--", "/x")
    refused(done, 72, "volume at '/data'")


def test_no_permission(docker):
    """An ordinary user on root's socket."""
    room = docker.room
    room.chmod(0o755)
    programs = room / "programs"  # the clone may be where only root can go
    programs.mkdir(mode=0o755)
    for name in ("coto", "coto-init", "coto-policy", "coto-docker"):
        shutil.copy(os.path.join(os.path.dirname(COTO), name), programs)
    done = subprocess.run(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", programs / "coto", "run", *FLAGS,
                           "--", "echo", "ran"], env=environment(docker.env), capture_output=True, timeout=60)
    assert done.returncode == 69 and b"may not talk" in done.stderr and b"group" in done.stderr, done
