"""Files in, files out, and what is never shown (R1.3, R1.6, R1.8 artifacts, R2.3)."""
import hashlib
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess

import pytest

from .helpers import BIN, COTO, ROOT, coto, inside, make_rootfs, ok, refused, run, run_json, sh

PY = ("--lang", "python", "-c")


@pytest.fixture
def shared(tmp_path):
    """A directory every uid may enter: the sandbox's host uid is not the caller's."""
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_uid == os.geteuid() and folder != pathlib.Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


# ---- copies ----

def test_copy_file(tmp_path):
    file = tmp_path / "in.bin"
    file.write_bytes(bytes(range(256)) * 9000)
    for flag, at in ((f"{file}:data/x.bin", "/workspace/data/x.bin"), (f"{file}:/tmp/x", "/tmp/x"),
                     (f"{file}:sub/", "/workspace/sub/in.bin")):
        out = sh(f"sha256sum < {at}; echo more >> {at}", "--copy", flag)
        assert out.split()[0] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert file.stat().st_size == 256 * 9000


def test_copy_keeps_the_execute_bit(tmp_path):
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    assert ok(run("--copy", f"{script}:tool", "--", "./tool")) == b"ran\n"


def test_copy_directory(tmp_path):
    (tmp_path / "d/sub/deep").mkdir(parents=True)
    (tmp_path / "d/a").write_text("A")
    (tmp_path / "d/sub/deep/b").write_text("B")
    (tmp_path / "d/empty").mkdir()
    (tmp_path / "d/link").symlink_to("a")
    out = sh("find d -type f | sort; cat d/a d/sub/deep/b; ls d | sort", "--copy", f"{tmp_path / 'd'}:d")
    assert out.split() == ["d/a", "d/sub/deep/b", "ABa", "empty", "link", "sub"]


def test_copy_follows_no_link_out(tmp_path):
    """A link in a copied tree stays a link: what it names on the host is not brought in."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/shadow").symlink_to("/etc/hostname")
    (tmp_path / "secret").write_text("host secret")
    (tmp_path / "d/up").symlink_to("../secret")
    out = sh("cat d/up d/shadow 2>&1; true", "--copy", f"{tmp_path / 'd'}:d")
    assert "host secret" not in out
    link = tmp_path / "alias"
    link.symlink_to(tmp_path / "secret")
    refused(run("--copy", f"{link}:x", "--", "cat", "x"), 66, "symbolic link")


def test_copy_goes_nowhere_else(tmp_path):
    file = tmp_path / "f"
    file.write_text("x")
    for target in ("/etc/f", "/usr/bin/f", "../f", "/workspace/../etc/f"):
        done = run("--copy", f"{file}:{target}", "--", "true")
        assert done.status == 65 and b"--copy" in done.err, done
    refused(run("--copy", f"{tmp_path}/nothing:x", "--", "true"), 66, "nothing")


def test_copy_into_a_small_workspace_fails_clearly(tmp_path):
    file = tmp_path / "big"
    file.write_bytes(bytes(4 << 20))
    done = run("--disk", "1m", "--copy", f"{file}:big", "--", "true")
    assert done.status >= 64 and b"big" in done.err and b"No space" in done.err, done


# ---- mounts ----

def test_mount_read_only_by_default(shared):
    (shared / "f").write_text("seen")
    for flag in (f"{shared}:/data", f"{shared}:/data:ro"):
        assert sh("cat /data/f; touch /data/new 2>/dev/null; echo x >> /data/f; true", "--mount", flag) == "seen"
    assert os.listdir(shared) == ["f"] and (shared / "f").read_text() == "seen"


def test_mount_read_write(shared):
    if ROOT:
        (shared / "f").write_text("")
        (shared / "f").chmod(0o666)
    sh("echo new > /data/made; echo more > /data/f", "--mount", f"{shared}:/data:rw")
    assert (shared / "made").read_text() == "new\n" and (shared / "f").read_text() == "more\n"
    if ROOT:
        assert (shared / "made").stat().st_uid not in (0, 10000)  # the sandbox's own host uid


def test_mount_of_a_file(shared):
    (shared / "f").write_text("one file")
    assert sh("cat /data/f; ls /data", "--mount", f"{shared}/f:/data/f") == "one filef\n"


def test_mount_is_nosuid_nodev(shared):
    for mode in ("ro", "rw"):
        lines = sh("grep ' /data ' /proc/self/mountinfo", "--mount", f"{shared}:/data:{mode}").split()
        options = lines[5].split(",")
        assert {"nosuid", "nodev", mode} <= set(options)


SENSITIVE = ["/", "/etc", "/proc", "/sys", "/dev", "/run", "/var/run", "/root", "/home", "/etc/ssl",
             "/proc/self", "/boot", "/sys/fs/cgroup", "/var/log", "/var", "//etc/", "/usr/../etc",
             "/proc/self/root", "/proc/self/root/etc", "/dev/shm"]


@pytest.mark.parametrize("path", [path for path in SENSITIVE if os.path.lexists(path)])
def test_sensitive_mounts_are_refused(path):
    """R1.6: refused, with the reason, and the program does not run."""
    done = run("--mount", f"{path}:/data", "--", "echo", "ran")
    if not ROOT and done.status == 66:
        assert "Permission denied" in done.message  # the kernel was first
        return
    refused(done, 68, "refused: ", "--mount")
    assert run_json("--mount", f"{path}:/data", "--", "true")["error"]["code"] == "forbidden"


def test_links_to_sensitive_places_are_refused(tmp_path):
    for target in ("/etc", "/", "/proc", "/home"):
        link = tmp_path / "link"
        link.symlink_to(target)
        refused(run("--mount", f"{link}:/data", "--", "true"), 68, "leads there")
        inner = tmp_path / "link2"
        inner.symlink_to(link)
        refused(run("--mount", f"{inner}:/data:rw", "--", "true"), 68)
        link.unlink()
        inner.unlink()


def test_engine_sockets_are_refused(tmp_path):
    """A docker socket is the host; wherever it lies, and inside a directory too."""
    folder = tmp_path / "engine"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(folder)
        server.bind("docker.sock")
        os.chdir(here)
        refused(run("--mount", f"{folder}/docker.sock:/x", "--", "true"), 68)
        refused(run("--mount", f"{folder}:/x", "--", "true"), 68, "docker.sock")


def test_private_names_are_refused(tmp_path):
    (tmp_path / "me/.ssh").mkdir(parents=True)
    refused(run("--mount", f"{tmp_path}/me/.ssh:/x", "--", "true"), 68)
    refused(run("--mount", f"{tmp_path}/me:/x", "--", "true"), 68, ".ssh")


def test_credentials_of_every_cloud_are_refused(tmp_path):
    for number, place in enumerate((".aws", ".azure", ".config/gcloud")):
        home = tmp_path / str(number)
        (home / place).mkdir(parents=True)
        for folder in (home, (home / place).parent, home / place):
            refused(run("--mount", f"{folder}:/x", "--", "true"), 68, "cloud credentials")


def test_own_state_is_refused(tmp_path):
    """Records and tokens of a service, and every directory on the way to them."""
    (tmp_path / "me/.local/state/coto").mkdir(parents=True)
    for folder in ("me", "me/.local", "me/.local/state", "me/.local/state/coto"):
        refused(run("--mount", f"{tmp_path}/{folder}:/x", "--", "true"), 68, "coto's own state")


def test_own_programs_are_not_writable(shared):
    """coto-init may lie apart from coto, and coto be started by a link: both places count."""
    for place, names in (("bin", ["coto"]), ("libexec/coto", ["coto-init", "coto-policy"])):
        (shared / place).mkdir(parents=True)
        for name in names:
            shutil.copy(BIN / name, shared / place / name)
    (shared / "links").mkdir()
    link = shared / "links/coto"
    link.symlink_to("../bin/coto")
    for folder in ("bin", "libexec", "libexec/coto", "libexec/coto/coto-init", "links"):
        command = [str(link), "run", "--mount", f"{shared / folder}:/x/it"]
        assert subprocess.run([*command, "--", "true"], capture_output=True, timeout=60).returncode == 0
        command[-1] += ":rw"
        done = subprocess.run([*command, "--", "true"], capture_output=True, timeout=60)
        assert done.returncode == 68 and b"it holds coto itself" in done.stderr, (folder, done)


def test_mounts_have_a_place_of_their_own(shared):
    for target in ("/proc", "/", "/proc/x", "relative", "/dev"):
        assert run("--mount", f"{shared}:{target}", "--", "true").status in (64, 65), target
    refused(run("--mount", f"{shared}/missing:/x", "--", "true"), 66, "missing")


# ---- tmpfs, noexec, writable output ----

def test_tmpfs():
    code = ("import os, json\nv = os.statvfs('/cache')\nopen('/cache/x', 'w').close()\n"
            "print(json.dumps([v.f_blocks * v.f_frsize, v.f_files]))")
    assert inside(code, "--tmpfs", "/cache:16m", "--inodes", "99") == [16 << 20, 99]
    assert inside(code, "--tmpfs", "/cache", "--tmp-size", "3m")[0] == 3 << 20
    assert run("--", "touch", "/cache/x").status != 0


def test_noexec():
    script = "cp /bin/true ./t; ./t && echo workspace; cp /bin/true /tmp/t; /tmp/t && echo tmp; true"
    assert sh(script).split() == ["workspace", "tmp"]
    assert sh(script, "--noexec") == ""
    assert inside("print(1)", "--noexec") == 1


def test_workspace_writable_output_only():
    script = "touch x && echo work; touch output/x && echo output; touch /tmp/x && echo tmp; true"
    assert sh(script, "--workspace-writable", "output").split() == ["output", "tmp"]
    assert sh(script).split() == ["work", "output", "tmp"]


def test_workdir():
    assert sh("pwd; echo $HOME; touch x; ls -d /workspace 2>/dev/null; true", "--workdir", "/job/here").split() \
        == ["/job/here", "/job/here"]


# ---- rootfs ----

def test_rootfs(shared):
    root = make_rootfs(shared / "root")
    out = sh("cat /etc/marker; ls /; (: > /bin/x) 2>/dev/null || echo read-only; : > x && echo work",
             "--rootfs", root)
    assert out.startswith("a root of its own\n") and "read-only\nwork\n" in out
    names = set(out.split("\n")[1:-3])
    assert {"bin", "etc", "proc", "workspace"} <= names and "sbin" not in names
    assert run_json("--rootfs", root, "--", "sh", "-c", "exit 4")["exit_code"] == 4
    refused(run("--rootfs", root, "--", "perl", "-v"), 127, "perl")


def test_rootfs_with_long_names(shared):
    """As in /nix/store: names and links of its top are neither cut off nor left out."""
    root = make_rootfs(shared / "root")
    place = "store/" + "h" * 200
    (root / place).mkdir(parents=True)
    (root / place / "told").write_text("whole")
    (root / "link").symlink_to(f"/{place}")
    (root / ("n" * 255)).mkdir()
    (root / ("n" * 255) / "told").write_text("there")
    assert sh(f"cat /link/told /{'n' * 255}/told", "--rootfs", root) == "wholethere"
    (root / "link").unlink()
    (root / "link").symlink_to("/" + "x/" * 1000)
    refused(run("--rootfs", root, "--", "true"), 69, "link", "too long")


def test_rootfs_has_the_same_walls(shared):
    root = make_rootfs(shared / "root")
    result = run_json("--rootfs", root, "--", "sh", "-c", "echo $(cat /proc/self/status | while read k v; do "
                      "case $k in Cap*|NoNew*|Seccomp:) echo $k$v;; esac; done)")
    words = dict(word.split(":") for word in result["stdout"].split())
    assert words["NoNewPrivs"] == "1" and words["Seccomp"] == "2"
    assert {int(words[k], 16) for k in words if k.startswith("Cap")} == {0}
    assert result["walls"]["root_read_only"]["up"]


def test_rootfs_with_links_is_refused(shared):
    for name in ("proc", "tmp", "dev", "workspace", "etc"):
        root = make_rootfs(shared / f"with-{name}", programs=())
        if (root / name).exists():
            for file in (root / name).iterdir():
                file.unlink()
            (root / name).rmdir()
        (root / name).symlink_to("/etc")
        refused(run("--rootfs", root, "--", "true"), 68, name, "symbolic link")


def test_sensitive_rootfs_is_refused(tmp_path):
    for path in ("/", "/etc", "/proc"):
        refused(run("--rootfs", path, "--", "true"), 68)
    refused(run("--rootfs", tmp_path / "nothing", "--", "true"), 66)


# ---- artifacts ----

def made_by(code, tmp_path, *flags):
    out = tmp_path / "artifacts"
    result = run_json("--artifacts", out, *flags, *PY, "import os\nos.chdir('output')\n" + code)
    return result, out


def test_artifacts(tmp_path):
    """R1.8: name, size, type and hash; and the bytes themselves."""
    data = {"plot.svg": b"<svg/>", "a.csv": b"1,2\n", "sub/dir/x.png": bytes(range(256)) * 90,
            "none": b"", "report.json": b"{}", "t.txt": b"t"}
    code = f"for n, d in {data!r}.items():\n    os.makedirs(os.path.dirname(n) or '.', exist_ok=True)\n" \
           "    open(n, 'wb').write(d)"
    result, out = made_by(code, tmp_path)
    types = {"plot.svg": "image/svg+xml", "a.csv": "text/csv", "sub/dir/x.png": "image/png",
             "none": "application/octet-stream", "report.json": "application/json", "t.txt": "text/plain"}
    rows = {row["name"]: row for row in result["artifacts"]}
    assert set(rows) == set(data)
    for name, text in data.items():
        assert rows[name]["bytes"] == len(text) and rows[name]["type"].startswith(types[name])
        assert rows[name]["sha256"] == hashlib.sha256(text).hexdigest()
        assert (out / name).read_bytes() == text
        assert (out / name).stat().st_uid == os.geteuid() and not (out / name).stat().st_mode & 0o6002
    assert result["artifacts_skipped"] == 0


def test_artifacts_are_told_without_a_directory():
    result = run_json("--", "sh", "-c", "echo x > output/f; echo y > elsewhere")
    assert [row["name"] for row in result["artifacts"]] == ["f"]
    assert run("--", "sh", "-c", "echo x > $COTO_OUTPUT/f").status == 0


def test_artifacts_of_a_failed_run_come_back(tmp_path):
    result, out = made_by("open('f', 'w').write('x'); raise SystemExit(5)", tmp_path)
    assert result["exit_code"] == 5 and (out / "f").read_text() == "x"
    result, out = made_by("open('g', 'w').write('x'); import time; time.sleep(60)", tmp_path,
                          "--timeout", "700ms")
    assert result["exit_status"] == 124


def test_artifact_links_are_not_followed(tmp_path):
    code = ("os.symlink('/etc/passwd', 'passwd')\nos.symlink('/proc/1/environ', 'env')\nos.symlink('..', 'up')\n"
            "os.symlink('real', 'alias')\nopen('real', 'w').write('r')\nos.link('real', 'hard')")
    result, out = made_by(code, tmp_path)
    assert {row["name"] for row in result["artifacts"]} == {"real", "hard"}
    assert result["artifacts_skipped"] == 4 and set(os.listdir(out)) == {"real", "hard"}


def test_artifacts_meet_those_of_another_run(tmp_path):
    """A directory where a file was, or the other way round: told, and no reason to lose the run."""
    out = tmp_path / "artifacts"
    for first, second in (("mkdir a; echo 1 > a/x", "echo 2 > a; echo 3 > b"), ("echo 1 > c", "mkdir c; echo 2 > c/x")):
        assert run("--artifacts", out, "--", "sh", "-c", f"cd output; {first}").status == 0
        result = run_json("--artifacts", out, "--", "sh", "-c", f"cd output; {second}; echo said")
        assert (result["verdict"], result["stdout"], result["artifacts_skipped"]) == ("ok", "said\n", 1)
    assert (out / "a/x").read_text() == "1\n" and (out / "b").read_text() == "3\n" and (out / "c").read_text() == "1\n"


def test_who_collects_artifacts_hears_of_what_is_missing(tmp_path):
    """Without --json too, and where stderr is no terminal."""
    code = "echo x > output/f; ln -s f output/link; mkfifo output/fifo"
    done = run("--artifacts", tmp_path / "out", "--", "sh", "-c", code)
    assert done.status == 0 and done.message.startswith("coto: --artifacts: 2 in output/ left out: "), done
    assert os.listdir(tmp_path / "out") == ["f"]
    for args in (["--", "sh", "-c", code], ["--artifacts", tmp_path / "out", "--", "sh", "-c", "echo x > output/f"]):
        done = run(*args)
        assert (done.status, done.err) == (0, b""), "control: who does not collect them, or has all"


def test_artifact_output_replaced_by_a_link(tmp_path):
    code = "os.chdir('..'); os.rmdir('output'); os.symlink('/etc', 'output')"
    result, out = made_by(code, tmp_path)
    assert result["artifacts"] == [] and (not out.exists() or os.listdir(out) == [])


def test_artifact_specials_are_skipped(tmp_path):
    code = ("import socket\nos.mkfifo('fifo')\ns = socket.socket(socket.AF_UNIX); s.bind('sock')\n"
            "open('file', 'w').write('f')")
    result, out = made_by(code, tmp_path, "--timeout", "10s")
    assert [row["name"] for row in result["artifacts"]] == ["file"]
    assert result["artifacts_skipped"] == 2 and os.listdir(out) == ["file"]


def test_artifact_modes_do_not_matter(tmp_path):
    code = ("os.makedirs('d/e')\nopen('d/e/f', 'w').write('1')\nopen('g', 'w').write('2')\n"
            "os.chmod('g', 0)\nos.chmod('d/e/f', 0o4777)\nos.chmod('d/e', 0)\nos.chmod('d', 0)")
    result, out = made_by(code, tmp_path)
    assert {row["name"] for row in result["artifacts"]} == {"d/e/f", "g"}
    assert (out / "g").read_text() == "2" and not (out / "d/e/f").stat().st_mode & 0o7002


def test_artifact_names_are_hostile(tmp_path):
    names = [b"new\nline", b"\x1b[31m", b"-rf", b"sp ace", b"\xff\xfe", b"..x", b"%s%n", b'"quote"', b"\\"]
    code = f"for n in {names!r}: open(n, 'w').write('x')"
    result, out = made_by(code, tmp_path)
    assert len(result["artifacts"]) == len(names)
    assert sorted(os.listdir(os.fsencode(out))) == sorted(names)
    odd = next(row for row in result["artifacts"] if "name_base64" in row)
    assert odd["name_base64"] == "//4="


def test_artifact_replaces_a_file(tmp_path):
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/f").write_text("old and longer")
    result, out = made_by("open('f', 'w').write('new')", tmp_path)
    assert (out / "f").read_text() == "new" and result["exit_status"] == 0


@pytest.mark.parametrize("code", ["open('g', 'w').write('new')",
                                  "os.mkdir('d'); open('d/outside', 'w').write('new')"])
def test_artifact_goes_through_no_link_of_the_target(tmp_path, code):
    """A link that lies in the target directory leads no artifact elsewhere."""
    out = tmp_path / "artifacts"
    out.mkdir()
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    (out / "g").symlink_to(outside)
    (out / "d").symlink_to(tmp_path)
    done = run("--artifacts", out, *PY, "import os\nos.chdir('output')\n" + code)
    assert outside.read_text() == "untouched"
    if done.status != 0:
        refused(done, 73, "--artifacts")


def test_artifacts_into_a_place_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "no/such/parent"):
        done = run("--artifacts", place, "--", "sh", "-c", "echo x > output/f")
        refused(done, 73, "--artifacts")


def test_many_artifacts(tmp_path):
    result, out = made_by("for i in range(300): open('f%03d' % i, 'w').write(str(i))", tmp_path)
    assert len(result["artifacts"]) == 300 == len(os.listdir(out))


def test_nothing_is_written_without_being_asked(tmp_path):
    before = sorted(os.listdir(tmp_path))
    assert run("--", "sh", "-c", "echo x > output/f; echo y > z", cwd=tmp_path).status == 0
    assert sorted(os.listdir(tmp_path)) == before


def test_workspaces_are_separate():
    """R1.6: two runs see nothing of each other."""
    sh("echo secret > /tmp/left; echo secret > left; echo secret > /dev/shm/left")
    assert json.loads(ok(run(*PY, "import os, json; print(json.dumps([os.listdir(d) for d in "
                                  "('/tmp', '/dev/shm', '/workspace/output')]))"))) == [[], [], []]


BELOW = """
mkdir -p tree/proc tree/sub tree/plain
mount -t proc proc tree/proc && "$1" run --mount "$PWD/tree:/t" -- true; echo "$?"; umount tree/proc
mount --bind /etc tree/sub && "$1" run --mount "$PWD/tree:/t" -- true; echo "$?"; umount tree/sub
mount -t tmpfs none tree/plain && touch tree/plain/seen
"$1" run --mount "$PWD/tree:/t" -- ls /t/plain; echo "$?"
"""


@pytest.mark.parametrize("who", [[]] if ROOT else [["-Ur"]])
def test_what_is_mounted_below_a_mount_is_judged_too(tmp_path, who):
    """A procfs or /etc somewhere below would come along."""
    tmp_path.chmod(0o755)
    done = subprocess.run(["unshare", "-m", *who, "bash", "-c", BELOW, "bash", COTO], cwd=tmp_path,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    text = done.stderr.decode()
    if not ROOT and "mount" in text and "denied" in text:
        return  # this host lets nobody else mount: nothing can lie below either
    assert done.stdout.decode().split()[:2] == ["68", "68"], text
    assert "tree/proc' is refused" in text or not ROOT
    assert "tree/sub' is refused" in text
    assert not ROOT or done.stdout.decode().split()[2:] == ["seen", "0"], text


# ---- what the caller brings along ----

MODES = """
import json, os
os.mkdir("output/d")
for name in ("a", "output/b", "output/d/c", "/tmp/t"):
    open(name, "w").write("x")
os.symlink("a", "output/link")
print(json.dumps({name: oct(os.stat(name).st_mode & 0o7777) for name in (
    "a", "output/d", "/", "/etc", "/dev", "/tmp", "/workspace", "/usr")}))
"""


def with_umask(bits, *args, **more):
    return run(*args, preexec_fn=lambda: os.umask(bits), **more)


@pytest.mark.parametrize("bits", [0o000, 0o111, 0o777])
def test_the_callers_umask_changes_nothing_inside(bits, tmp_path, shared):
    """Of the sandbox it would make directories that nobody can enter, or that all may write to."""
    (shared / "tool").write_text("#!/bin/sh\necho ran\n")
    (shared / "tool").chmod(0o755)
    wanted = json.loads(ok(run(*PY, MODES)))
    assert wanted["/"] == wanted["/etc"] == "0o755" and wanted["a"] == "0o644", wanted
    assert json.loads(ok(with_umask(bits, *PY, MODES))) == wanted
    assert ok(with_umask(bits, "--copy", f"{shared / 'tool'}:sub/tool", "--", "sub/tool")) == b"ran\n"
    assert with_umask(bits, "--timeout", "300ms", "--", "sleep", "20").status == 124
    (tmp_path / "out").mkdir()
    done = with_umask(bits, "--json", "--artifacts", tmp_path / "out", *PY, MODES)
    if bits == 0o000 or ROOT:
        found = json.loads(ok(done))
        assert found["verdict"] == "ok" and len(found["artifacts"]) == 2, found
        assert {path.name for path in (tmp_path / "out").rglob("*")} == {"b", "d", "c"}
    else:  # the caller may not enter the directories that it makes with such a umask
        assert json.loads(done.out)["error"]["code"] == "cannot_write", done
        (tmp_path / "out/d").chmod(0o700)  # for who removes it


@pytest.mark.parametrize("bits", [0o111, 0o777])
def test_the_callers_umask_without_isolation(bits):
    done = with_umask(bits, "--isolation", "subprocess", "--", "sh", "-c", "umask; echo x > output/a; cat output/a")
    assert ok(done) == b"0022\nx\n"


def limited(size, *args, verb="run", soft=True, **more):
    """coto of a caller whose files may have `size` bytes."""
    limits = (size, resource.RLIM_INFINITY if soft else size)
    return coto(verb, *args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits), **more)


@pytest.mark.parametrize("soft", [True, False])
def test_the_callers_file_limit_and_a_report(tmp_path, soft):
    """An error with a remedy, and no half of a report; a limit that is met by nothing changes nothing."""
    reports = tmp_path / "reports"
    done = limited(600, "--report", reports, "--", "echo", "ran", soft=soft)
    assert (done.status, done.out) == (73, b"ran\n"), done
    assert "coto: report '" in done.message and "File too large" in done.message and "ulimit -f" in done.message
    assert list(reports.iterdir()) == []
    assert ok(limited(1 << 20, "--report", reports, "--", "echo", "ran", soft=soft)) == b"ran\n"
    assert len([json.loads(path.read_text()) for path in reports.iterdir()]) == 1


def test_the_callers_file_limit_and_artifacts(tmp_path):
    """--fsize gives the program a limit of its own: its artifact is larger than the caller may write."""
    write = "dd if=/dev/zero of=output/large bs=1000 count=20 2>/dev/null; echo small > output/a"
    done = limited(4096, "--fsize", "1m", "--artifacts", tmp_path / "out", "--", "sh", "-c", write)
    refused(done, 73, "large", "File too large")
    assert not (tmp_path / "out/large").exists()


def test_the_callers_file_limit_and_junit(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s/test_a.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n" + "".join(f"    def test_{i}(self): pass\n" for i in range(40)))
    file = tmp_path / "cases.xml"
    done = limited(1500, "--runner", "unittest", "--junit", file, tmp_path / "s", verb="test")
    assert done.status == 73 and "File too large" in done.message and "ulimit -f" in done.message, done
    assert file.read_bytes() == b""
    assert limited(1 << 20, "--runner", "unittest", "--junit", file, tmp_path / "s", verb="test").status == 0
    assert file.read_bytes().startswith(b"<?xml") and file.read_bytes().endswith(b"</testsuites>\n")


def test_the_callers_file_limit_and_standard_output(tmp_path):
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run([COTO, "run", "--json", "--", "sh", "-c", "seq 5000"], stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.PIPE, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)))
    assert done.returncode == 73 and b"standard output: File too large" in done.stderr, done


def test_a_limit_too_low_for_any_sandbox(tmp_path):
    refused(limited(0, "--", "true"), 71, "File too large", "ulimit -f")


def test_the_program_still_has_its_signal():
    """coto ignores SIGXFSZ; the program, in its own limit, is ended by it as ever."""
    done = run("--fsize", "1000", "--", "sh", "-c", "exec dd if=/dev/zero of=a bs=4000 count=1")
    assert done.status == 128 + 25, done
