"""The machine's image, made from Debian packages: a kernel, an initramfs, a root.

Packages come through the machine's own apt configuration and are only unpacked: no
maintainer script runs, so nothing here needs root. What the scripts would have
done and the tests need (accounts, a few links, compiled Python) is done by hand.
An image is named by the packages in it and by this folder's recipe, and kept.
"""
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = "linux-image-cloud-amd64"  # its dependency is the kernel of the day
PACKAGES = """bash coreutils dash debianutils diffutils findutils grep gzip hostname login mawk
    mount passwd procps sed tar util-linux base-files base-passwd libc-bin busybox-static
    systemd apparmor e2fsprogs iproute2 kmod strace uidmap bubblewrap runc crun
    python3 python3-pytest python3-yaml libyaml-0-2 libssl3 libjansson4 libsqlite3-0 libzstd1 liblzma5 libcurl4
    gcc libc6-dev linux-libc-dev musl-tools make perl""".split()
MODULES = ["virtio_pci", "virtio_blk", "squashfs", "overlay", "ext4"]
# What update-alternatives would have linked.
LINKS = {"usr/bin/cc": "gcc", "usr/bin/awk": "mawk", "usr/bin/which": "which.debianutils"}
APT_SECONDS = 900
STEP_SECONDS = 600


def say(text):
    print(f"vm: {text}", flush=True)


def run(command, seconds=STEP_SECONDS, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=seconds,
                          stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        raise SystemExit(f"vm: {' '.join(map(str, command))[:300]}: status {done.returncode}\n"
                         f"{done.stderr.decode(errors='replace')[-3000:]}")
    return done.stdout


# ---- packages ----

def apt(room, archives, *words):
    """apt-get as on a machine where nothing is installed, so that everything is named."""
    (room / archives / "partial").mkdir(parents=True, exist_ok=True)
    (room / "status").touch()
    return ["apt-get", "-qq", "-y", "-o", f"Dir::State::status={room}/status",
            "-o", f"Dir::Cache::archives={room / archives}", "-o", "Debug::NoLocking=1",
            "-o", "APT::Sandbox::User=root", "-o", "APT::Install-Recommends=false", *words]


def update_lists():
    say("fetching package lists")
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    run(prefix + ["apt-get", "update", "-qq"], APT_SECONDS)


def kernel_package():
    text = run(["apt-cache", "depends", KERNEL]).decode()
    found = re.search(r"Depends: (linux-image-\S+)", text)
    if not found:
        raise SystemExit(f"vm: {KERNEL} names no kernel")
    return found[1]


def with_fresh_lists(action):
    """Package lists may be absent or older than the mirror: fetched when that shows."""
    try:
        return action()
    except SystemExit:
        update_lists()
        return action()


def resolve(room):
    """Every package there will be, as file names with their versions."""
    def names():
        # With no archives at hand: those that are there would not be named.
        text = run(apt(room, "none", "--print-uris", "install", kernel_package(),
                       *PACKAGES)).decode()
        return sorted(line.split()[1] for line in text.splitlines() if line.startswith("'"))
    return with_fresh_lists(names)


def download(room, names):
    with_fresh_lists(lambda: run(apt(room, "archives", "--download-only", "install",
                                     kernel_package(), *PACKAGES), APT_SECONDS))
    return [room / "archives" / name for name in names]


# ---- root file system ----

def unpack(archives, root):
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for archive in archives:
        run(["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x -p --keep-directory-symlink '
             '--no-same-owner -C "$2" --exclude=./usr/share/doc --exclude=./usr/share/man '
             '--exclude=./usr/share/locale', "sh", archive, root])


def configure(root):
    masters = root / "usr/share/base-passwd"
    shutil.copy(masters / "passwd.master", root / "etc/passwd")
    shutil.copy(masters / "group.master", root / "etc/group")
    (root / "etc/hostname").write_text("machine\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost machine\n")
    (root / "etc/machine-id").write_text("0123456789abcdef" * 2 + "\n")  # a machine without one is asked for its settings
    (root / "etc/fstab").touch()  # without it umount(8) refuses whoever is not root, in a namespace of his own too
    for link, target in LINKS.items():
        (root / link).unlink(missing_ok=True)
        (root / link).symlink_to(target)
    for name in ("proc", "sys", "dev", "run", "tmp", "tests"):
        (root / name).mkdir(exist_ok=True)


def compile_python(root):
    """A read-only /usr keeps no compiled modules, and compiling is what emulation is slow at."""
    loader = next((root / "usr/lib/x86_64-linux-gnu").glob("ld-linux*"))
    libraries = f"{root}/usr/lib/x86_64-linux-gnu"
    python = next((root / "usr/bin").glob("python3.[0-9]*"))
    folders = [root / "usr/lib" / python.name, root / "usr/lib/python3"]
    run([loader, "--library-path", libraries, python, "-E", "-S", "-m", "compileall", "-q", "-j2",
         "-s", root, "-p", "/", *folders], env={"PATH": "/usr/bin:/bin", "PYTHONHOME": f"{root}/usr"})


# ---- kernel ----

def module_order(folder):
    """The modules we need and those they need, in the order to load them."""
    files = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}
    order = []

    def visit(name):
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return  # built into the kernel, or there already
        needs = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for other in (needs[1].decode() if needs else "").split(","):
            visit(other)
        order.append(path)
    for name in MODULES:
        visit(name)
    return order


def make_initramfs(root, target):
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        tree = pathlib.Path(name)
        for folder in ("bin", "modules", "proc", "sys", "dev", "disk", "rw", "new"):
            (tree / folder).mkdir()
        shutil.copy(root / "usr/bin/busybox", tree / "bin/busybox")
        shutil.copy(HERE / "init", tree / "init")
        (tree / "init").chmod(0o755)
        for number, path in enumerate(module_order(root / "usr/lib/modules")):
            shutil.copy(path, tree / f"modules/{number:02}-{path.name}")
        run(["sh", "-c", 'cd "$1" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1 > "$2"',
             "sh", tree, target])


# ---- all together ----

def recipe():
    parts = [path.read_bytes() for path in (HERE / "image.py", HERE / "init")]
    return b"".join(parts)


def build(folder, room, names):
    say("fetching packages")
    archives = download(room, names)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name) / "root"
        say(f"unpacking {len(archives)} packages")
        unpack(archives, root)
        configure(root)
        say("compiling Python's library")
        compile_python(root)
        say("writing the disk")
        half = pathlib.Path(name) / "image"
        half.mkdir()
        shutil.copy(next((root / "boot").glob("vmlinuz-*")), half / "vmlinuz")
        make_initramfs(root, half / "initrd.gz")
        shutil.rmtree(root / "usr/lib/modules")
        shutil.rmtree(root / "boot")
        run(["mksquashfs", root, half / "root.img", "-all-root", "-noappend", "-no-progress",
             "-noI", "-noD", "-noF", "-noX", "-no-xattrs", "-quiet"])
        half.rename(folder)


def prepare(cache):
    """The folder with vmlinuz, initrd.gz and root.img; made when it is not there yet."""
    if platform.machine() != "x86_64" or not shutil.which("apt-get"):
        raise SystemExit("vm: the machine is made from Debian's amd64 packages: run this on Debian, x86_64")
    cache.mkdir(parents=True, exist_ok=True)
    room = cache / "apt"
    room.mkdir(exist_ok=True)
    names = resolve(room)
    key = hashlib.sha256("\n".join(names).encode() + recipe()).hexdigest()[:16]
    folder = cache / key
    if folder.is_dir():
        say(f"image {key}: there already")
        return folder
    for old in cache.iterdir():
        if old != room:
            shutil.rmtree(old, ignore_errors=True)
    build(folder, room, names)
    say(f"image {key}: made")
    return folder
