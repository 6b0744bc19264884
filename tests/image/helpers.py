"""How the tests of coto image start it, and how archives are made, good and hostile.

Archives come from Python's tarfile and from hand-made headers; the judge of a tree is what a walk of
it on the host finds, and what a program inside sees.
"""
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("COTO_TEST_BIN") or SOURCE / "build").resolve()
COTO = str(BIN / "coto")
ROOT = os.geteuid() == 0
USAGE, INPUT, FORBIDDEN, TOOL, OUTPUT, BUSY = 64, 66, 68, 67, 73, 75
MTIME = 1_600_000_000


class Store:
    """A store of its own, and coto image on it."""

    def __init__(self, path):
        self.path = path

    def image(self, verb, *arguments, stdin=None, **more):
        return subprocess.run([COTO, "image", verb, "--images-dir", str(self.path), *map(str, arguments)],
                              input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                              capture_output=True, timeout=300, **more)

    def run(self, *arguments, **more):
        return subprocess.run([COTO, "run", "--images-dir", str(self.path), *map(str, arguments)],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300, **more)

    def take(self, source, name="test", *flags, **more):
        """Imports, and tells the digest."""
        ok(self.image("import", source, name, *flags, **more))
        return self.show(name)["digest"].removeprefix("sha256:")

    def show(self, name="test"):
        return json.loads(ok(self.image("show", name, "--json")))

    def names(self):
        return [row["name"] for row in json.loads(ok(self.image("list", "--json")))]

    def tree(self, name="test"):
        return pathlib.Path(self.show(name)["directory"]) / "rootfs"

    def drafts(self):
        return os.listdir(self.path / "tmp") if (self.path / "tmp").exists() else []


def ok(done):
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()


def refused(done, status, *words):
    """With that status, those words, and nothing on standard output."""
    text = done.stderr.decode(errors="replace")
    assert done.returncode == status, (done.returncode, done.stdout, text)
    assert done.stdout == b"" and text.startswith("coto: "), (done.stdout, text)
    for word in words:
        assert word in text, text
    return text


# ---- archives ----

def member(name, data=None, mode=None, kind=None, link=""):
    """A TarInfo and its bytes: a file when there are bytes, else a directory, or what kind says."""
    info = tarfile.TarInfo(name)
    info.mtime, info.linkname = MTIME, link
    info.type = kind or (tarfile.DIRTYPE if data is None else tarfile.REGTYPE)
    info.mode = mode if mode is not None else 0o755 if info.isdir() else 0o644
    if info.type == tarfile.REGTYPE:
        info.size = len(data or b"")
    return info, data or b""


def tar(*members, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def sha(data):
    return hashlib.sha256(data).hexdigest()


def docker_archive(layers, tags=("test:1",), config=None, mangle=lambda files: files):
    """As `docker save` of an older engine writes it."""
    config = json.dumps({"config": config or {}, "rootfs": {"type": "layers", "diff_ids": [
        "sha256:" + sha(layer) for layer in layers]}}).encode()
    names = [f"layer{i}/layer.tar" for i in range(len(layers))]
    files = {sha(config) + ".json": config, **dict(zip(names, layers)), "manifest.json": json.dumps(
        [{"Config": sha(config) + ".json", "RepoTags": list(tags), "Layers": names}]).encode()}
    return tar(*(member(name, data) for name, data in mangle(files).items()))


def oci_layout(path, layers, compress=lambda data: data, note=None):
    """An OCI layout directory."""
    blobs = path / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data):
        (blobs / sha(data)).write_bytes(data)
        return {"digest": "sha256:" + sha(data), "size": len(data)}

    config = blob(json.dumps({"config": {"Env": ["A=1"]}, "rootfs": {"type": "layers", "diff_ids": [
        "sha256:" + sha(layer) for layer in layers]}}).encode())
    manifest = blob(json.dumps({"schemaVersion": 2, "config": config,
                                "layers": [blob(compress(layer)) for layer in layers]}).encode())
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    if note:
        manifest["annotations"] = {"org.opencontainers.image.ref.name": note}
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return path


# ---- trees ----

def entries(tree):
    """path -> what it is: bytes of a file, "-> target" of a link, None for a directory."""
    found = {}
    for top, dirs, names in os.walk(tree):
        for name in dirs + names:
            path = pathlib.Path(top) / name
            key = str(path.relative_to(tree))
            found[key] = f"-> {os.readlink(path)}" if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def busybox_tree(path):
    """A root file system that can run something: one static program under its many names."""
    (path / "bin").mkdir(parents=True)
    (path / "etc").mkdir()
    program = shutil.which("busybox") or "/bin/busybox"
    shutil.copy(program, path / "bin/busybox")
    (path / "bin/busybox").chmod(0o755)
    for name in ("sh", "cat", "ls", "true", "sleep", "touch", "id"):
        (path / "bin" / name).symlink_to("busybox")
    (path / "etc/motd").write_text("from the image\n")
    return path
