"""Directories, archives, docker save and OCI layouts become trees, by what is in them."""
import fcntl
import gzip
import io
import json
import lzma
import os
import signal
import stat
import subprocess
import tarfile
import time

import pytest

from .helpers import (BUSY, COTO, FORBIDDEN, INPUT, MTIME, ROOT, USAGE, Store, docker_archive, entries, member, oci_layout, ok,
                      refused, tar)

LINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


BASE = tar(member("usr/"), member("usr/bin/tool", b"#!/bin/sh\n", 0o755), member("etc/"), member("etc/a b\n", b"name\n"),
           member("usr/link", kind=LINK, link="bin/tool"), member("usr/hard", mode=0o755, kind=HARD, link="usr/bin/tool"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd, lzma.compress,
                                  lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:])],
                         ids=["plain", "gzip", "zstd", "xz", "gzip in two members"])
def test_archives(store, tmp_path, pack):
    (tmp_path / "a").write_bytes(pack(BASE))
    digest = store.take(tmp_path / "a")
    assert entries(store.tree()) == {"usr": None, "usr/bin": None, "usr/bin/tool": b"#!/bin/sh\n", "etc": None,
                                     "etc/a b\n": b"name\n", "usr/link": "-> bin/tool", "usr/hard": b"#!/bin/sh\n"}
    tool = os.stat(store.tree() / "usr/bin/tool")
    assert stat.S_IMODE(tool.st_mode) == 0o755 and tool.st_mtime == MTIME and tool.st_nlink == 2
    assert store.take("-", "piped", stdin=pack(BASE)) == digest


def test_a_directory_is_the_same_image_as_its_archive(store, tmp_path):
    digest = store.take("-", "one", stdin=BASE)
    with tarfile.open(fileobj=io.BytesIO(BASE)) as archive:
        archive.extractall(tmp_path / "tree")
    assert store.take(tmp_path / "tree", "two") == digest
    assert len(os.listdir(store.path / "sha256")) == 1
    (tmp_path / "tree/etc/a b\n").write_bytes(b"namE\n")
    assert store.take(tmp_path / "tree", "three") != digest


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_long_names_and_targets(store, form):
    name, target = "/".join(["d" * 60] * 8), "t" * 300
    store.take("-", stdin=tar(member(name + "/file", b"x"), member("l" * 200, kind=LINK, link=target), form=form))
    found = entries(store.tree())
    assert found[name + "/file"] == b"x" and found["l" * 200] == "-> " + target


def test_set_id_bits_owners_and_devices_are_left_out(store):
    out = ok(store.image("import", "-", "test", stdin=tar(
        member("bin/su", b"x", 0o4755), member("bin/sg", b"x", 0o2777), member("tmp/", mode=0o1777), member("dir/", mode=0),
        member("bin/secret", b"x", 0o0), member("dev/sda", kind=tarfile.BLKTYPE), member("dev/null", kind=tarfile.CHRTYPE),
        member("fifo", kind=tarfile.FIFOTYPE))))
    assert "left out: 3 devices" in out and "set-id bits dropped: 2" in out
    modes = {name: stat.S_IMODE(os.lstat(store.tree() / name).st_mode) for name in entries(store.tree())}
    assert modes == {"bin": 0o755, "bin/su": 0o755, "bin/sg": 0o755, "tmp": 0o755, "dir": 0o700, "bin/secret": 0o400}
    assert all(os.lstat(store.tree() / name).st_uid == os.geteuid() for name in modes)


def test_what_comes_twice_is_what_came_last(store):
    store.take("-", stdin=tar(member("a", b"1"), member("a", b"22"), member("d", b"file"), member("d/"), member("d/x", b"in"),
                              member("e/"), member("e/x", b"gone"), member("e", b"file"),
                              member("h", kind=HARD, link="a"), member("h", b"other")))
    assert entries(store.tree()) == {"a": b"22", "d": None, "d/x": b"in", "e": b"file", "h": b"other"}


# ---- layers ----

LAYERS = [
    tar(member("lib", kind=LINK, link="usr/lib"), member("usr/lib/"), member("usr/lib/old", b"0"), member("gone", b"0"),
        member("dir/"), member("dir/a", b"0"), member("dir/sub/b", b"0"), member("keep", b"0"), member("same/x", b"0")),
    # the opaque mark comes after what it must not hide; lib/ leads through the link of the layer below
    tar(member("dir/new", b"1"), member("dir/.wh..wh..opq", b""), member(".wh.gone", b""), member("lib/new", b"1"),
        member("usr/lib/.wh.old", b""), member(".wh.never", b""), member(".wh..wh.plnk/"), member(".wh.nowhere/.wh.x", b"")),
    tar(member("keep", kind=LINK, link="dir/new"), member("hard", kind=HARD, link="dir/new"), member("same/.wh.x", b""),
        member("same/x", b"2")),
]
MERGED = {"lib": "-> usr/lib", "usr": None, "usr/lib": None, "usr/lib/new": b"1", "dir": None, "dir/new": b"1",
          "keep": "-> dir/new", "hard": b"1", "same": None, "same/x": b"2"}


def test_layers_of_docker_save(store):
    digest = store.take("-", stdin=docker_archive(LAYERS, config={"Env": ["PATH=/x"], "User": "9999"}))
    assert entries(store.tree()) == MERGED
    shown = store.show()
    assert shown["kind"] == "docker" and shown["layers"] == 3 and shown["config"]["User"] == "9999"
    assert store.take("-", "zipped", stdin=gzip.compress(docker_archive(LAYERS))) == digest


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
def test_layers_of_an_oci_layout(store, tmp_path, pack):
    layout = oci_layout(tmp_path / "layout", LAYERS, pack)
    digest = store.take(layout)
    assert entries(store.tree()) == MERGED and store.show()["kind"] == "oci"
    packed = subprocess.run(["tar", "-C", layout, "-c", "."], capture_output=True, check=True).stdout
    assert store.take("-", "tar", stdin=packed) == digest


@pytest.mark.parametrize("mark", [".wh..wh..opq", ".wh.keep"])
def test_a_directory_in_the_place_of_a_link_takes_nothing_from_where_it_led(store, mark):
    """RUN rm /lib && mkdir /lib: the engine marks the new directory as opaque."""
    below = tar(member("usr"), member("usr/lib"), member("usr/lib/keep", b"x"), member("lib", kind=LINK, link="usr/lib"))
    above = tar(member("lib"), member(f"lib/{mark}", b""), member("lib/new", b"y"))
    store.take("-", stdin=docker_archive([below, above]))
    assert entries(store.tree()) == {"usr": None, "usr/lib": None, "usr/lib/keep": b"x", "lib": None, "lib/new": b"y"}
    through = tar(member(f"lib/{mark}", b""))  # without one it is the link's
    store.take("-", stdin=docker_archive([below, through]))
    assert "usr/lib/keep" not in entries(store.tree())


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_what_a_device_took_the_place_of_is_gone(store, kind):
    """It is left out, and what an upper layer has hidden does not come back instead."""
    below = tar(member("keep", b"x"), member("secret", b"x"), member("dir/in", b"x"))
    above = tar(member("secret", kind=kind), member("dir", kind=kind), member("none/such", kind=kind))
    store.take("-", stdin=docker_archive([below, above]))
    assert entries(store.tree()) == {"keep": b"x"} and store.show()["skipped"] == 3


def test_the_callers_umask_is_no_part_of_an_image(store):
    archive = tar(member("a/b/c", b"x"))
    digests = {store.take("-", f"u{mask}", stdin=archive, preexec_fn=lambda: os.umask(mask)) for mask in (0, 0o22, 0o77)}
    assert len(digests) == 1 and stat.S_IMODE(os.stat(store.tree("u63") / "a").st_mode) == 0o755


def test_marks_are_plain_files_where_there_are_no_layers(store):
    store.take("-", stdin=tar(member("a", b"1"), member(".wh.a", b""), member(".wh..wh..opq", b"")))
    assert entries(store.tree()) == {"a": b"1", ".wh.a": b"", ".wh..wh..opq": b""}


def test_layers_that_older_engines_wrote_as_links(store):
    def linked(files):
        files["layer1/layer.tar"] = files["layer0/layer.tar"]
        return files
    archive = docker_archive([LAYERS[0], LAYERS[0]], mangle=linked)
    members = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as whole:
        for info in whole:
            members.append(member(info.name, kind=LINK, link="../layer0/layer.tar") if info.name == "layer1/layer.tar"
                           else (info, whole.extractfile(info).read()))
    store.take("-", stdin=tar(*members))
    assert entries(store.tree())["gone"] == b"0"


def test_one_of_several(store):
    both = [{"Config": "c", "RepoTags": ["a:1"], "Layers": []}, {"Config": "c", "RepoTags": ["b:1"], "Layers": []}]
    archive = docker_archive([LAYERS[0]], tags=("a:1",), mangle=lambda files: {
        **files, "manifest.json": json.dumps(json.loads(files["manifest.json"]) + both[1:]).encode()})
    refused(store.image("import", "-", "test", stdin=archive), USAGE, "several", "a:1, b:1", "--select")
    store.take("-", "test", "--select", "a:1", stdin=archive)


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def test_a_changed_layer_is_refused(store, tmp_path):
    archive = docker_archive(LAYERS, mangle=lambda files: {
        **files, "layer0/layer.tar": flip(files["layer0/layer.tar"], files["layer0/layer.tar"].index(b"0", 5 * 512))})
    refused(store.image("import", "-", "test", stdin=archive), FORBIDDEN, "layer 1", "not what its digest says")
    layout = oci_layout(tmp_path / "layout", LAYERS)
    for blob in (layout / "blobs/sha256").iterdir():
        good = blob.read_bytes()
        blob.write_bytes(flip(good, len(good) // 2))
        refused(store.image("import", layout, "test"), FORBIDDEN, "not what its digest says")
        blob.write_bytes(good)
    assert store.names() == []
    store.take(layout)


@pytest.mark.parametrize("change, words", [
    (lambda files: {**files, "manifest.json": b"{"}, "no JSON"),
    (lambda files: {**files, "manifest.json": b'[{"Config": "none.json", "Layers": []}]'}, "it has no 'none.json'"),
    (lambda files: {name: data for name, data in files.items() if name != "layer1/layer.tar"}, "layer1/layer.tar"),
    (lambda files: {**files, "manifest.json": files["manifest.json"].replace(b', "layer2/layer.tar"', b"")},
     "another number of layers"),
    (lambda files: {**files, "manifest.json": files["manifest.json"].replace(b"layer0/", b"../../")}, "it has no"),
    (lambda files: {**files, "manifest.json": b"[" * 5000 + b"]" * 5000}, "no JSON"),
])
def test_damaged_documents(store, change, words):
    refused(store.image("import", "-", "test", stdin=docker_archive(LAYERS, mangle=change)), INPUT, words)


# ---- names ----

def test_names_point_to_digests(store, root):
    digest = store.take(root, "ia-libre/sandbox")
    store.take(root, "registry:5000/a/b:v1")
    assert store.names() == ["ia-libre/sandbox:latest", "registry:5000/a/b:v1"]
    assert store.show("sha256:" + digest)["digest"] == store.show(f"ia-libre/sandbox@sha256:{digest}")["digest"]
    refused(store.image("show", "ia-libre/sandbox@sha256:" + "0" * 64), FORBIDDEN, digest, "0" * 64)
    assert "still theirs" in ok(store.image("remove", "ia-libre/sandbox")).replace("theirs too", "still theirs")
    assert store.names() == ["registry:5000/a/b:v1"] and (store.path / "sha256" / digest).exists()
    ok(store.image("remove", "registry:5000/a/b:v1"))
    assert store.names() == [] and os.listdir(store.path / "sha256") == []
    refused(store.image("remove", "registry:5000/a/b:v1"), INPUT, "there is none of that name")


def test_a_digest_takes_all_its_names_along(store, root):
    digest = store.take(root, "one")
    store.take(root, "two")
    ok(store.image("remove", "sha256:" + digest))
    assert store.names() == []


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".a", "-a", "a:b:c", "a b", "a\n", "a@sha256:12", "x" * 250,
                                  "sha256:" + "0" * 64, "a:", "a/.hidden", "é"])
def test_bad_names(store, root, name):
    refused(store.image("import", root, name), USAGE)
    assert store.names() == []


def test_tables_for_people(store, root):
    assert "There is none yet" in ok(store.image("list"))
    digest = store.take(root, "people")
    table = ok(store.image("list")).splitlines()
    assert table[0].split()[:3] == ["NAME", "DIGEST", "SIZE"] and table[1].startswith("people:latest")
    assert digest[:12] in table[1]
    shown = ok(store.image("show", "people"))
    assert f"sha256:{digest}" in shown and "signatures   none" in shown
    listing = ok(store.image("show", "people", "--listing"))
    assert "f 0644 15 " in listing and "l bin/sh -> busybox\n" in listing


def test_the_listing_is_what_the_digest_is_of(store, root):
    import hashlib
    digest = store.take(root)
    assert hashlib.sha256(store.image("show", "test", "--listing").stdout).hexdigest() == digest


# ---- the store ----

def test_a_killed_import_leaves_nothing_that_is_listed(store, root):
    with subprocess.Popen([COTO, "image", "import", "--images-dir", store.path, "-", "dead"], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL) as maker:
        maker.stdin.write(BASE[:600])
        maker.stdin.flush()
        end = time.monotonic() + 120
        while not store.drafts() and time.monotonic() < end:
            time.sleep(0.01)
        assert len(store.drafts()) == 1
        store.take(root, "alive")  # leaves the draft of one that lives alone
        assert len(store.drafts()) == 1
        maker.send_signal(signal.SIGKILL)
    assert store.names() == ["alive:latest"] and len(store.drafts()) == 1
    store.take(root, "other")
    assert store.drafts() == []


def test_a_store_that_others_may_write_to(store, root):
    store.take(root)
    store.path.chmod(0o777)
    for verb in (["list"], ["show", "test"], ["import", root, "b"], ["remove", "test"]):
        refused(store.image(*verb), FORBIDDEN, "others may write")
    refused(store.run("--image", "test", "--", "/bin/true"), FORBIDDEN, "others may write")
    store.path.chmod(0o755)
    ok(store.image("show", "test"))


def test_where_images_are(root, tmp_path):
    here = tmp_path / "elsewhere"
    env = dict(os.environ, COTO_IMAGES_DIR=str(here))
    ok(subprocess.run([COTO, "image", "import", root, "a"], env=env, capture_output=True, timeout=60))
    assert Store(here).names() == ["a:latest"]
    ran = subprocess.run([COTO, "run", "--image", "a", "--", "/bin/cat", "/etc/motd"], env=env, capture_output=True, timeout=60)
    assert ran.stdout == b"from the image\n", ran.stderr


def test_a_users_own_store(root, tmp_path):
    """Root's is the system's, which is not touched here."""
    env = dict(os.environ, XDG_DATA_HOME=str(tmp_path / "data"))
    verb = ["list"] if ROOT else ["import", root, "a"]
    ok(subprocess.run([COTO, "image", *verb], env=env, capture_output=True, timeout=60))
    assert (tmp_path / "data/coto/images/names/a:latest").exists() == (not ROOT)


@pytest.mark.parametrize("source, words", [("/nonexistent", "No such file"), ("/", "the whole host"), ("/dev/null", "not a tar file"),
                                           ("/etc/hostname", "not a tar file"), ("/dev/zero", "it is a device")])
def test_bad_sources(store, source, words):
    done = store.image("import", source, "test")
    assert done.returncode in (INPUT, FORBIDDEN) and words in done.stderr.decode()


def test_a_fifo_is_not_waited_for(store, tmp_path):
    """A pipe is read, whatever its name is."""
    os.mkfifo(tmp_path / "fifo")
    refused(store.image("import", tmp_path / "fifo", "test"), INPUT, "fifo", "it is a FIFO", "- is stdin")
    assert store.take("/dev/stdin", "piped", stdin=BASE) == store.take("-", "other", stdin=BASE)


def test_what_is_not_there_is_not_removed(store):
    refused(store.image("remove", "nobody"), INPUT, "nobody", "coto image list")


def test_a_lock_of_somebody_who_may_only_read_hides_no_image(store, root):
    """flock asks for no permission: any user could make root's images disappear, and a run at the container level
    take the host's own directories instead of the one its profile names."""
    store.take(root)
    place = store.tree().parent
    with open(place / "listing") as listing:
        with pytest.raises(OSError):
            fcntl.lockf(listing, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for target in (place, place / "rootfs", place / "listing"):
            held = os.open(target, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            assert ok(store.run("--image", "test", "--", "/bin/cat", "/etc/motd")) == "from the image\n"
            os.close(held)



def test_removal_waits_for_sandboxes(store, root):
    store.take(root)
    with subprocess.Popen([COTO, "run", "--images-dir", store.path, "--image", "test", "--", "/bin/sh", "-c", "echo up; cat"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as user:
        assert user.stdout.readline() == b"up\n"
        refused(store.image("remove", "test"), BUSY, "a sandbox is using it", "--force")
        assert store.names() == ["test:latest"]
        user.stdin.close()
        assert user.wait(60) == 0
    ok(store.image("remove", "test"))
    store.take(root)
    with subprocess.Popen([COTO, "run", "--images-dir", store.path, "--image", "test", "--", "/bin/sh", "-c", "echo up; cat"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as user:
        assert user.stdout.readline() == b"up\n"
        ok(store.image("remove", "test", "--force"))
        user.stdin.close()
    assert store.names() == []
