"""Archives that want out of their tree (threats AR-09 to AR-12, FS-08, FS-18): refused, or harmless.

The control is Python's own tarfile without its filter, as root file systems are often unpacked: there the same
archives reach the file beside the tree."""
import contextlib
import gzip
import io
import json
import os
import pathlib
import stat
import subprocess
import tarfile

import pytest

from .helpers import COTO, FORBIDDEN, INPUT, docker_archive, entries, member, oci_layout, ok, refused, sha, tar

LINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
OLD = b"of the host\n"


def outside(canary):
    """name -> members that write to the canary, and if a tree that was not refused may have come of it."""
    up = f"../{canary.name}"
    return {
        "absolute": ([member(str(canary), b"evil")], False),
        "up": ([member(up, b"evil")], False),
        "up in the middle": ([member("a/"), member(f"a/../../{canary.name}", b"evil")], False),
        "through a link to a file": ([member("l", kind=LINK, link=up), member("l", b"evil")], True),
        "through a link to a directory": ([member("l", kind=LINK, link=".."), member(f"l/{canary.name}", b"evil")], True),
        "through an absolute link": ([member("l", kind=LINK, link=str(canary.parent)), member(f"l/{canary.name}", b"evil")], False),
        "through two links": ([member("a", kind=LINK, link="."), member("a/b", kind=LINK, link=".."),
                               member(f"a/b/{canary.name}", b"evil")], True),
        "hard link up": ([member("h", kind=HARD, link=up), member("h", b"evil")], False),
        "hard link absolute": ([member("h", kind=HARD, link=str(canary)), member("h", b"evil")], False),
        "hard link through a link": ([member("l", kind=LINK, link=".."), member("h", kind=HARD, link=f"l/{canary.name}"),
                                      member("h", b"evil")], False),
    }


CASES = sorted(outside(pathlib.PurePath("/x/canary")))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("layered", [False, True], ids=["tar", "layer"])
def test_nothing_outside_is_written(store, tmp_path, case, layered):
    canary = tmp_path / "canary"
    canary.write_bytes(OLD)
    before = os.stat(canary)
    members, may_pass = outside(canary)[case]
    base = member("etc/x", b"x")
    archive = docker_archive([tar(base), tar(*members)]) if layered else tar(base, *members)
    done = store.image("import", "-", "test", stdin=archive)
    after = os.stat(canary)
    assert canary.read_bytes() == OLD and (after.st_nlink, after.st_mode) == (1, before.st_mode)
    assert (done.returncode == 0) == may_pass or done.returncode == INPUT, done.stderr
    if done.returncode == 0:  # what was meant for the host lies inside, as a program inside would have had it
        assert all(not isinstance(what, bytes) or what != OLD for what in entries(store.tree()).values())
    else:
        refused(done, INPUT)
        assert store.names() == []


@pytest.mark.parametrize("case", CASES)
def test_control_tarfile_writes_it(tmp_path, case):
    canary, tree = tmp_path / "canary", tmp_path / "tree"
    canary.write_bytes(OLD)
    tree.mkdir()
    with tarfile.open(fileobj=io.BytesIO(tar(*outside(canary)[case][0]))) as archive:
        archive.extraction_filter = staticmethod(lambda info, _: info)  # as it was before it had one
        for info in archive:
            archive.extract(info, tree)
    assert canary.read_bytes() == b"evil"


@pytest.mark.parametrize("name, words", [
    ("a/" * 300 + "f", "256 directories deep"), ("n" * 256, "component over 255"), ("/".join(["d" * 250] * 17), "over 4095"),
    ("..", "goes up"), ("a/..", "goes up"), ("/", "without a name"), ("//etc/x", "absolute"),
])
def test_names_that_are_none(store, name, words):
    refused(store.image("import", "-", "test", stdin=tar(member(name, b"x"))), INPUT, words)


@pytest.mark.parametrize("place", ["dev", "proc", "sys", "tmp", "etc"])
def test_places_of_mounts_that_are_links(store, place):
    archive = tar(member("usr/"), member(place, kind=LINK, link="usr"))
    refused(store.image("import", "-", "test", stdin=archive), FORBIDDEN, f"'{place}' is no directory")
    refused(store.image("import", "-", "test", stdin=tar(member("usr/"), member(place, b"file"))), FORBIDDEN)


def bomb(size):
    """One member of that many zeros, small when compressed."""
    info = tarfile.TarInfo("zeros")
    info.size = size
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1) as packed:
        packed.write(info.tobuf())
        for _ in range(size // (1 << 20)):
            packed.write(bytes(1 << 20))
        packed.write(bytes(1024))
    return out.getvalue()


def test_bombs_are_cut_at_the_limit(store):
    archive = bomb(64 << 20)
    assert len(archive) < 1 << 20
    for flags in (["--max-size", "16m"], ["--max-size", "63m"]):
        refused(store.image("import", "-", "test", *flags, stdin=archive), INPUT, "larger than")
    ok(store.image("import", "-", "test", "--max-size", "64m", stdin=archive))
    many = tar(*(member(f"f{i}", b"") for i in range(101)))
    refused(store.image("import", "-", "many", "--max-files", "100", stdin=many), INPUT, "too many members")
    ok(store.image("import", "-", "many", "--max-files", "101", stdin=many))


def test_a_limit_counts_all_layers_together(store):
    layers = [tar(member(f"f{i}", bytes(600000))) for i in range(3)]
    refused(store.image("import", "-", "test", "--max-size", "1500k", stdin=docker_archive(layers)), INPUT, "layer 3", "larger than")
    ok(store.image("import", "-", "test", "--max-size", "1800k", stdin=docker_archive(layers)))


def test_hard_links_count_as_often_as_they_are_files(store):
    links = [member(f"f{i}", kind=tarfile.LNKTYPE, link="f") for i in range(9)]
    archive = tar(member("f", bytes(1 << 20)), *links)
    refused(store.image("import", "-", "test", "--max-size", "9m", stdin=archive), INPUT, "hard links", "--max-size")
    ok(store.image("import", "-", "test", "--max-size", "10m", stdin=archive))


def test_a_blob_that_is_many_layers_counts_as_often(store):
    """Behind its end mark a layer holds what no limit of files or their sizes sees."""
    layer = tar(member("a", b"x")) + bytes(8 << 20)
    config = json.dumps({"rootfs": {"diff_ids": ["sha256:" + sha(layer)] * 10}}).encode()
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["t:1"], "Layers": ["l.tar"] * 10}]).encode()
    archive = tar(member("c.json", config), member("l.tar", gzip.compress(layer)), member("manifest.json", manifest))
    assert len(archive) < 1 << 18
    refused(store.image("import", "-", "test", "--max-size", "32m", "--max-files", "100", stdin=archive), INPUT, "layer ", "larger than")
    ok(store.image("import", "-", "test", "--max-size", "80m", "--max-files", "100", stdin=archive))


STATUS = "var/lib/dpkg/status.d/"


@pytest.mark.parametrize("what, members", [
    ("256 MB", lambda: [member(STATUS + "0", b"Package: " + b"x" * (60 << 20)),
                        *(member(STATUS + str(i), kind=tarfile.LNKTYPE, link=STATUS + "0") for i in range(1, 5))]),
    ("100000", lambda: [member(STATUS + "0", b"Package: a\nVersion: 1\n\n" * 100001)]),
], ids=["text", "number"])
def test_lists_of_packages_that_would_fill_the_memory(store, what, members):
    refused(store.image("import", "-", "test", stdin=tar(*members())), INPUT, what, "packages")


def test_a_configuration_that_nobody_could_read_again(store):
    """The image would be there, and in no list."""
    layer = tar(member("usr"))
    refused(store.image("import", "-", "test", stdin=docker_archive([layer], config={"x": [1] * 900000})), INPUT, "configuration")
    assert store.names() == [] and not store.drafts()
    store.take("-", stdin=docker_archive([layer], config={"Cmd": ["[" * 100, '{"\\' * 100]}))
    assert store.names() == ["test:latest"]


def test_what_an_image_calls_itself_is_no_command_to_a_terminal(store):
    told = store.image("import", "-", "test", stdin=tar(member("etc/os-release", b"PRETTY_NAME=\x1b]0;x\x07Evil\xc2\x9b2J\n")))
    assert "Evil" in ok(told) and b"\x1b" not in told.stdout and b"\xc2\x9b" not in told.stdout


@pytest.mark.parametrize("which", ["manifest", "config", "layer"])
def test_a_hole_in_the_place_of_a_document_or_layer(store, tmp_path, which):
    """Its hash would take days."""
    layer = tar(member("a", b"x"))
    layout = oci_layout(tmp_path / "layout", [layer])
    manifest = json.loads((layout / "index.json").read_text())["manifests"][0]
    found = json.loads((layout / "blobs/sha256" / manifest["digest"][7:]).read_text())
    digest = {"manifest": manifest, "config": found["config"], "layer": found["layers"][0]}[which]["digest"]
    os.truncate(layout / "blobs/sha256" / digest[7:], 1 << 42)
    refused(store.image("import", layout, "test"), INPUT, "larger than" if which == "layer" else "sensible size")


def on_terminal(*command):
    """What a terminal gets of it."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs)
    os.close(theirs)
    got = b""
    with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as terminal:
        while piece := terminal.read(65536):
            got += piece
    assert process.wait(60) == 0
    return got


def test_names_and_configuration_on_a_terminal(store):
    """C1 controls are UTF-8; what is signed is piped as it is."""
    store.take("-", stdin=docker_archive([tar(member("a\x9b2J", b"x"))], config={"Cmd": ["\x9b2J", "\x1b[2J"]}))
    show = [COTO, "image", "show", "test", "--images-dir", str(store.path)]
    for flags in (["--json"], ["--listing"], []):
        got = on_terminal(*show, *flags)
        assert b"2J" in got and b"\xc2\x9b" not in got and b"\x1b" not in got, got
    assert sha(store.image("show", "test", "--listing").stdout) == store.show()["digest"].removeprefix("sha256:")


def sparse(kind):
    info = tarfile.TarInfo("sparse")
    if kind == "gnu":
        info.type = tarfile.GNUTYPE_SPARSE
        return info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.size": str(1 << 50)}
    return info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


@pytest.mark.parametrize("kind", ["gnu", "pax"])
def test_sparse_files_are_refused(store, kind):
    refused(store.image("import", "-", "test", stdin=sparse(kind)), INPUT, "archive: ")


@pytest.mark.parametrize("cut", [1, 100, 511, 513, 1000, -1100, -700])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_archives_that_end_early(store, cut, pack):
    whole = tar(member("a", os.urandom(600)), member("b", os.urandom(600)), form=tarfile.USTAR_FORMAT)[:512 * 8]
    data = pack(whole)
    data = data[:cut if pack is bytes or cut < 0 else min(cut, len(data) - 9)]
    refused(store.image("import", "-", "test", stdin=data), INPUT)
    assert store.names() == []


def test_a_link_in_the_place_of_the_layout(store, tmp_path):
    """Blobs of a layout directory are not read through links."""
    from .helpers import oci_layout
    secret = tmp_path / "secret"
    layer = tar(member("etc/x", b"x"))
    layout = oci_layout(tmp_path / "layout", [layer])
    for blob in (layout / "blobs/sha256").iterdir():
        if blob.read_bytes() == layer:
            secret.write_bytes(layer)
            blob.unlink()
            blob.symlink_to(secret)
    refused(store.image("import", layout, "test"), INPUT, "it has no")


def test_directories_with_odd_things(store, tmp_path):
    """A directory's links are kept and not followed, its FIFOs and sockets are left where they are."""
    import socket
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/shadow").symlink_to("/etc/shadow")
    (tree / "out").symlink_to(tmp_path)
    os.mkfifo(tree / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "sock"))
        store.take(tree)
    assert entries(store.tree()) == {"etc": None, "etc/shadow": "-> /etc/shadow", "out": f"-> {tmp_path}"}
    assert store.show()["skipped"] == 2
    assert all(not stat.S_ISSOCK(os.lstat(store.tree() / name).st_mode) for name in entries(store.tree()))
