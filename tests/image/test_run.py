"""Sandboxes with an image for their root: what is in force before a program starts."""
import json
import os
import time

import pytest

from .helpers import COTO, FORBIDDEN, INPUT, USAGE, busybox_tree, ok, refused


@pytest.fixture
def digest(store, root):
    return store.take(root, "box")


def test_the_program_sees_the_image_and_cannot_change_it(store, digest):
    ran = store.run("--json", "--image", "box", "--", "/bin/sh", "-c", "cat /etc/motd; touch /etc/x /bin/y; ls /usr; echo ran")
    told = json.loads(ran.stdout)
    assert told["stdout"] == "from the image\nran\n", told
    plain = json.loads(store.run("--json", "--", "/bin/true").stdout)
    assert told["stderr"].count("Read-only file system") == 2 and told["missing_walls"] == plain["missing_walls"]
    ok(store.image("verify", "box"))


def test_a_plan_names_the_digest(store, digest):
    plan = json.loads(ok(store.run("--dry-run", "--image", "box", "--", "/bin/true")))
    assert plan["image"] == "box" and plan["image_digest"] == digest
    assert plan["rootfs"] == str(store.path / "sha256" / digest / "rootfs")


def test_by_digest_and_by_pinned_name(store, digest):
    for name in (f"sha256:{digest}", f"box@sha256:{digest}", f"box:latest@sha256:{digest}"):
        ok(store.run("--image", name, "--", "/bin/true"))
    refused(store.run("--image", "box@sha256:" + "0" * 64, "--", "/bin/true"), FORBIDDEN, digest, "was asked for")
    refused(store.run("--image", "none", "--", "/bin/true"), INPUT, "there is none of that name", "coto image")
    refused(store.run("--image", "box", "--rootfs", "/srv", "--", "/bin/true"), 65, "one root")
    refused(store.run("--image", "box", "--isolation", "subprocess", "--", "/bin/true"), 69, "has no images")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


CHANGES = {
    "one bit": lambda tree: flip(tree / "bin/busybox"),
    "mode": lambda tree: (tree / "etc/motd").chmod(0o600),
    "set-id": lambda tree: (tree / "bin/busybox").chmod(0o4755),
    "new file": lambda tree: (tree / "etc/new").write_text(""),
    "new directory": lambda tree: (tree / "etc/new").mkdir(),
    "missing file": lambda tree: (tree / "etc/motd").unlink(),
    "other link": lambda tree: ((tree / "bin/sh").unlink(), (tree / "bin/sh").symlink_to("cat")),
    "file for link": lambda tree: ((tree / "bin/sh").unlink(), (tree / "bin/sh").write_text("busybox")),
    "fifo": lambda tree: os.mkfifo(tree / "etc/fifo"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_tree_is_refused_when_it_is_pinned(store, digest, change):
    pinned = f"box@sha256:{digest}"
    ok(store.run("--image", pinned, "--", "/bin/cat", "/etc/motd"))
    ok(store.run("--image", pinned, "--", "/bin/cat", "/etc/motd"))  # by its stamp
    CHANGES[change](store.tree("box"))
    for _ in range(2):  # and the refusal leaves no stamp
        text = refused(store.run("--image", pinned, "--", "/bin/cat", "/etc/motd"), FORBIDDEN)
        assert "changed since it was imported" in text or "device, FIFO or socket" in text
    done = store.image("verify", "box")
    assert done.returncode == FORBIDDEN and b"etc/" in done.stderr or b"bin/" in done.stderr


def test_a_change_that_hides_its_time(store, digest):
    """The time of a file can be set back; that it was changed cannot be hidden."""
    pinned, path = f"box@sha256:{digest}", store.tree("box") / "etc/motd"
    ok(store.run("--image", pinned, "--", "/bin/true"))
    before = os.stat(path)
    time.sleep(0.02)
    path.write_text("From the image\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused(store.run("--image", pinned, "--", "/bin/true"), FORBIDDEN, "etc/motd")


def test_a_changed_listing(store, digest):
    listing = store.path / "sha256" / digest / "listing"
    listing.write_text(listing.read_text().replace("etc/motd", "etc/mote"))
    refused(store.image("verify", "box"), FORBIDDEN, "listing")


def test_languages_are_looked_for_in_the_image(store, digest, tmp_path):
    (tmp_path / "a.py").write_text("print(1)")
    refused(store.run("--image", "box", tmp_path / "a.py"), 67, "python3", "the image 'box'")
    (tmp_path / "a.sh").write_text("echo $((6 * 7))")
    assert ok(store.run("--image", "box", tmp_path / "a.sh")) == "42\n"


def test_a_profile_that_names_an_image_for_containers_runs_without(store):
    assert ok(store.run("--profile", "ia-libre", "--", "/bin/echo", "host")) == "host\n"


def test_usage(store):
    refused(store.image("frobnicate"), USAGE)
    refused(store.image("import", "x"), USAGE)
    refused(store.image("sign", "x"), USAGE, "with which key")
    refused(store.image("build", "x"), USAGE, "from what")
    import subprocess
    shown = subprocess.run([COTO, "image", "--help"], capture_output=True, timeout=30)
    assert shown.returncode == 0 and b"coto image import" in shown.stdout
    listed = subprocess.run([COTO, "help"], capture_output=True, timeout=30)
    assert b"image" in listed.stdout


def test_two_images_side_by_side(store, digest, tmp_path):
    other = busybox_tree(tmp_path / "other")
    (other / "etc/motd").write_text("another\n")
    store.take(other, "other")
    assert ok(store.run("--image", "other", "--", "/bin/cat", "/etc/motd")) == "another\n"
    assert ok(store.run("--image", "box", "--", "/bin/cat", "/etc/motd")) == "from the image\n"
