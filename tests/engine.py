"""A Docker engine of the tests' own: a private socket, data and state, no network, runsc as a
second runtime, and one image made by debootstrap. Started when it is first asked for, stopped at
the end of the session; if the session is killed the kernel tells it to stop."""
import atexit
import contextlib
import ctypes
import fcntl
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
KEPT = SOURCE / "build/test-images"  # survives from run to run: debootstrap takes a minute
IMAGE = "coto-test:latest"
EMPTY = "coto-test-empty:latest"  # no interpreter, no shell: nothing at all
SUITE, PACKAGES = "bookworm", "python3,tcc,libc6-dev"
PROGRAMS = ["dockerd", "containerd", "runc", "debootstrap"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUNTIMES = {"runsc": {"path": shutil.which("runsc", path=PATH) or "/usr/bin/runsc",
                      "runtimeArgs": ["--platform=ptrace", "--network=none"]},
            "not-kata": {"path": shutil.which("runc", path=PATH) or "/usr/sbin/runc"},  # whatever it is called
            "ghost": {"path": "/nonexistent/runtime"}}


def is_here():
    return os.geteuid() == 0 and all(shutil.which(name, path=PATH) for name in PROGRAMS)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def root_tar(packages=PACKAGES):
    """A root file system with these packages, made once per recipe: the test image's."""
    recipe = hashlib.sha256(f"{SUITE} {packages}".encode()).hexdigest()[:12]
    tar = KEPT / f"{SUITE}-{recipe}.tar"
    if tar.exists():
        return tar
    KEPT.mkdir(parents=True, exist_ok=True)
    with open(KEPT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # somebody beside us may be making it
        if not tar.exists():
            make_root_tar(tar, packages)
    return tar


def make_root_tar(tar, packages):
    with tempfile.TemporaryDirectory(prefix="coto-test-root-", dir=KEPT) as room:
        tree = pathlib.Path(room) / "root"
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, tree], check=True,
                       stdout=subprocess.DEVNULL, timeout=900, env=dict(os.environ, PATH=PATH))
        if (tree / "usr/bin/tcc").exists():
            (tree / "usr/bin/gcc").symlink_to("tcc")  # as a compiler that is quick to bring
        for waste in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(tree / waste, ignore_errors=True)
        new = pathlib.Path(room) / "root.tar"
        subprocess.run(["tar", "-C", tree, "-cf", new, "--exclude=./dev/*", "."], check=True, timeout=300)
        new.rename(tar)


class Engine:
    def __init__(self):
        self.room = pathlib.Path(tempfile.mkdtemp(prefix="coto-test-docker-"))
        self.socket = str(self.room / "docker.sock")
        self.env = {"DOCKER_HOST": f"unix://{self.socket}"}
        self.more = []  # arguments
        self.prefix = []  # a command that starts it
        self.process = None

    def start(self):
        (self.room / "daemon.json").write_text(json.dumps({"runtimes": RUNTIMES}))
        log = open(self.room / "log", "ab")
        self.process = subprocess.Popen(
            [*self.prefix, "dockerd", "--config-file", self.room / "daemon.json", "-H", f"unix://{self.socket}",
             "--data-root", self.room / "data", "--exec-root", self.room / "exec", "--pidfile", self.room / "pid",
             "--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver", self.storage(),
             "--exec-opt", "native.cgroupdriver=cgroupfs", *self.more],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": PATH}, start_new_session=True,
            preexec_fn=die_with_parent)
        self.wait()

    @staticmethod
    def storage():
        return "overlay2" if "overlay" in pathlib.Path("/proc/filesystems").read_text() else "vfs"

    def wait(self, seconds=60):
        end = time.monotonic() + seconds
        while True:
            try:
                return self.call("GET", "/info")
            except (OSError, http.client.HTTPException):
                if self.process.poll() is not None or time.monotonic() > end:
                    raise AssertionError((self.room / "log").read_text()[-3000:])
                time.sleep(0.05)

    def call(self, method, path, body=None, **headers):
        """(status, parsed answer) of the Engine API."""
        connection = Connection(self.socket)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        try:
            return reply.status, json.loads(text)
        except ValueError:
            return reply.status, text

    def bring_image(self, name, tar):
        repository, tag = name.split(":")
        with open(tar, "rb") as file:
            status, answer = self.call("POST", f"/images/create?fromSrc=-&repo={repository}&tag={tag}", file,
                                       **{"Content-Type": "application/x-tar"})
        assert status == 200, answer

    def build_image(self, name, folder):
        """From its Dockerfile; no instruction has a network."""
        with tempfile.TemporaryFile(dir=self.room) as file:
            subprocess.run(["tar", "-C", folder, "-cf", "-", "."], check=True, stdout=file, timeout=300)
            file.seek(0)
            status, answer = self.call("POST", f"/build?t={name}&networkmode=none&q=1&rm=1&forcerm=1", file,
                                       **{"Content-Type": "application/x-tar"})
        assert status == 200 and (isinstance(answer, dict) or b'"error"' not in answer), answer

    def containers(self):
        return self.call("GET", "/containers/json?all=1")[1]

    def of_execution(self, execution=None):
        """inspect of the one running container of coto's."""
        found = [item for item in self.containers() if "coto.execution" in item["Labels"]
                 and execution in (None, item["Labels"]["coto.execution"])]
        assert len(found) == 1, found
        return self.call("GET", f"/containers/{found[0]['Id']}/json")[1]

    def stop(self, signo=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signo)
            self.process.wait(60)
        self.stop_containerd()

    def stop_containerd(self):
        """That of an engine that was killed."""
        file = self.room / "exec/containerd/containerd.pid"
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "containerd":
                os.kill(pid, signal.SIGKILL)
            file.unlink()

    def close(self):
        self.stop()
        places = [line.split()[4] for line in open("/proc/self/mountinfo")]
        for place in reversed([place for place in places if place.startswith(str(self.room))]):
            subprocess.run(["umount", "--lazy", place], check=False)
        shutil.rmtree(self.room, ignore_errors=True)


running = None


def engine():
    """The session's engine, with its images."""
    global running
    if not running:
        made = Engine()
        atexit.register(made.close)
        made.start()
        made.bring_image(IMAGE, root_tar())
        empty = made.room / "empty.tar"
        subprocess.run(["tar", "-cf", empty, "-T", "/dev/null"], check=True)
        made.bring_image(EMPTY, empty)
        running = made
    return running


def close():
    """Before the session's end: what comes after needs none."""
    global running
    if running:
        running.close()
    running = None
