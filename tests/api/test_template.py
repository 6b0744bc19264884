"""A Python program in the service is a fork of a template: it must not reach that one, nor another fork, nor
anything of theirs; and what should be random is."""
import ast
import base64
import collections
import errno
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time

import pytest

from cli.helpers import BIN, PATH, SOURCE, descendants, only, read, status_of
from conform.wire_frames import KIND, frame

from . import events
from .daemon import Daemon
from .helpers import HAS_IDS, PATIENCE, ROOT, wait_until

# Every readable byte of the program's own memory, searched for texts that it is told in halves.
SEARCH = """
import json, re, sys
def has(needle):
    found = 0
    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
        for line in maps:
            low, high, mode = re.match('(\\\\w+)-(\\\\w+) (...)', line).groups()
            if mode[0] != 'r' or '[v' in line:
                continue
            memory.seek(int(low, 16))
            try:
                data = memory.read(int(high, 16) - int(low, 16))
            except OSError:
                continue
            start = -1
            while (start := data.find(needle[0], start + 1)) >= 0:
                found += data[start + len(needle[0]):start + len(needle[0]) + len(needle[1])] == needle[1]
    return found > 0
halves = json.load(sys.stdin)
"""


NAME = "print(hash('posixpath'))"
# A copy has two filters; a program that was started has one. All that a service starts has the
# service's own as well, unless a user with subordinate ids has started it.
FILTERS = "print(open('/proc/self/status').read().split('Seccomp_filters:')[1].split()[0])"
WARM = "3\n" if ROOT or not HAS_IDS else "2\n"


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


def python(service, code, **more):
    result = service.run(code, **more).json
    assert result["verdict"] == "ok", result
    return result["stdout"]


def template(service):
    """The one that is forked: a child of the launcher itself."""
    return [pid for pid, row in descendants(service.process.pid).items()
            if row[0] == service.launcher and row[1].startswith("python3")]


def parked(service):
    """Its copies that wait, and those that run."""
    rows = descendants(service.process.pid)
    return [pid for pid, row in rows.items() if row[1].startswith("python3") and rows.get(row[0], (0, ""))[1].startswith("coto-init")]


def test_control_programs_are_forks_of_one_template(service):
    """Names of the library have the hash they had there, which is no two's that were started."""
    assert python(service, NAME) == python(service, NAME)
    assert len(template(service)) == 1
    assert python(service, NAME) != python(service, NAME, cold=True)


def test_another_one_when_it_is_killed(service):
    """Also while copies of it wait, on shelves or in a sandbox that nobody has used yet."""
    box = service.create()
    for _ in range(2):
        before = template(service)
        os.kill(before[0], 9)
        wait_until(lambda: python(service, "print(7)") == "7\n" and len(template(service)) == 1 and template(service) != before,
                   "another template")
    wait_until(lambda: python(service, FILTERS) == python(service, FILTERS) == WARM, "copies of it")
    assert service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code="print(8)").json["output"] == "8\n"
    assert service.delete(f"/api/v1/sandbox/{box['sandbox_id']}").status < 300


def test_its_successor_takes_over(service):
    """After two thousand copies; none of them is started the long way meanwhile, or waits."""
    wait_until(lambda: {python(service, FILTERS) for _ in range(10)} == {WARM}, "shelves full of copies")
    code = NAME + ";" + FILTERS
    seen, lock = collections.Counter(), threading.Lock()

    def work():
        while sum(seen.values()) < 2100:
            line = python(service, code)
            with lock:
                seen[line] += 1
    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(seen) == 2 and {line.split()[1] + "\n" for line in seen} == {WARM}, seen


@pytest.mark.parametrize("what", [
    "random.random()", "random.Random().random()", "random.SystemRandom().random()", "random.getstate()[1][:3]", "uuid.uuid4()",
    "uuid.uuid1().clock_seq", "tempfile.mktemp()", "next(tempfile._get_candidate_names())", "secrets.token_hex()", "hash(secrets.token_bytes())",
    "os.urandom(8)", "hashlib.sha256(secrets.token_bytes()).hexdigest()", "random.choices(range(10**9), k=2)", "threading.get_ident() and object() and random.getrandbits(64)"])
def test_forks_differ_in_what_is_random(service, what):
    code = f"import hashlib, os, random, secrets, tempfile, threading, uuid; print({what})"
    assert len({python(service, code) for _ in range(4)}) >= (4 if "clock_seq" not in what else 2)


@pytest.mark.parametrize("what", ["hash('secret')", "hash(b'secret')", "hash(('secret', 1))", "hash('\u00fcber alles')", "hash(datetime.time(11, 12, 13))",
                                  "list({f'secret {i}' for i in range(20)})", "hash(memoryview(b'my secret'))"])
def test_forks_differ_in_hashes_of_secrets(service, what):
    """Who has read the secret of one knows nothing of what collides in another."""
    code = f"import datetime; print({what})"
    seen = {python(service, code) for _ in range(8)}
    box = service.create()["sandbox_id"]
    seen |= {service.post(f"/api/v1/sandbox/{box}/execute", code=code).json["output"] for _ in range(2)}
    assert len(seen) == 9, seen


# Everything in the interpreter's tables, looked for by another object of the same text.
FIND = """
import gc
def again(text):
    return ''.join(list(text)) if type(text) is str else bytes(list(text))
gc.unfreeze()
tables = [it for it in gc.get_objects() if type(it) in (dict, set, frozenset)]
names = [(table, key) for table in tables for key in list(table) if type(key) in (str, bytes)]
print(len(names), sum(again(key) not in table for table, key in names))
"""
ANOTHER_SECRET = """
import ctypes, gc
ctypes.c_ubyte.in_dll(ctypes.pythonapi, '_Py_HashSecret').value ^= 1
"""


def test_a_fork_finds_what_was_imported(service):
    count, lost = map(int, python(service, FIND).split())
    assert count > 10000 and lost == 0, (count, lost)


FORTY = """abc array base64 bisect calendar collections contextlib copy csv dataclasses datetime decimal enum fractions
functools hashlib heapq io itertools json logging math numbers operator os pathlib random re shutil statistics string struct
subprocess sys tempfile textwrap threading time traceback types typing urllib.parse uuid warnings zlib""".split()


def test_the_usual_modules_are_there_before_the_program_begins(service):
    show = f"import sys; print([name for name in {FORTY} if name not in sys.modules])"
    assert len(FORTY) >= 40 and python(service, show) == "[]\n"
    assert len(eval(python(service, show, cold=True))) > 20, "control"


def test_control_with_another_secret_alone_it_is_lost(service):
    count, lost = map(int, python(service, ANOTHER_SECRET + FIND, cold=True).split())
    assert lost > count / 2 > 1000, (count, lost)


def test_variables_that_are_read_at_the_start_are_read(service):
    """One that waits has started without them."""
    show = "import sys; print(hash('secret'), '/workspace/lib' in sys.path, sys.flags.optimize, hash('posixpath'))"
    env = {"PYTHONHASHSEED": "7", "PYTHONPATH": "/workspace/lib", "PYTHONOPTIMIZE": "1"}
    plain = subprocess.run(["/usr/bin/python3", "-c", show], env=env, capture_output=True, text=True, check=True).stdout
    assert python(service, show, env=env) == plain and "True 1" in plain
    box = service.create(env=env)["sandbox_id"]
    first, second = (service.post(f"/api/v1/sandbox/{box}/execute", code=code).json for code in ("x = 1\n" + show, show + "\nprint(x)"))
    assert (first["output"], first["state_kept"], first["state_note"]) == (plain, True, None)
    assert (second["output"], second["state_found"]) == (plain + "1\n", True)
    assert python(service, NAME, env={"OTHER": "1", "PYTHONUNBUFFERED": "1"}) == python(service, NAME)


def execute(service, box, code, **more):
    reply = service.post(f"/api/v1/sandbox/{box}/execute", code=code, **more)
    assert reply.status == 200, reply.json
    return reply.json


def in_both(service, code, **new):
    """What it prints by POST /run, and in a sandbox that keeps state; with the cold ones they are one text."""
    found = {python(service, code, cold=cold, **new) for cold in (False, True)}
    box = service.create(**new)["sandbox_id"]
    found |= {execute(service, box, code, cold=cold)["output"] for cold in (False, True)}
    assert len(found) == 1, found
    return found.pop()


@pytest.mark.parametrize("env", [{"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LANG": ""}, {"LC_CTYPE": "C"}, {"LANG": "C.UTF-8"}, {"TZ": "Asia/Tokyo"},
                                 {"HOME": "/tmp"}], ids=str)
def test_it_is_as_if_it_had_started_with_its_variables(service, env):
    code = ("import locale, os, site, sys, time; print(sys.flags.utf8_mode, locale.getpreferredencoding(), os.environ.get('LC_CTYPE'), "
            "site.USER_SITE, time.tzname, [p for p in sys.path if p.startswith(('/tmp', '/workspace/'))])")
    in_both(service, code, env=env)


def test_pythonpath_without_the_programs_own_place(service):
    files = [{"path": "lib/foo.py", "content": "v = 7\n"}]
    env = {"PYTHONSAFEPATH": "1", "PYTHONPATH": "/workspace/lib"}
    assert in_both(service, "import foo, sys; print(foo.v, sys.path)", env=env, files=files).startswith("7 ['/workspace/lib'")


@pytest.mark.parametrize("home, env", [("", {}), ("h/", {"HOME": "/workspace/h"})])
def test_modules_in_the_programs_home(service, home, env):
    place = f"{home}.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    files = [{"path": f"{place}/foo.py", "content": "x = 1\n"}]
    assert in_both(service, "import foo, sys; print(foo.x, sys.path[1:])", env=env, files=files).startswith("1 [")


def test_a_zone_goes_with_its_execution(service):
    box = service.create()["sandbox_id"]
    code = "import time; print(time.tzname[0], time.localtime(0)[3])"
    assert execute(service, box, code, env={"TZ": "Asia/Tokyo"})["output"] == "JST 9\n"
    assert execute(service, box, code)["output"] == "UTC 0\n"


def test_variables_that_come_too_late_are_told(service):
    box = service.create()["sandbox_id"]
    late = execute(service, box, "import os; print(os.environ['PYTHONPATH'])", env={"PYTHONPATH": "/workspace/lib"})
    assert late["output"] == "/workspace/lib\n" and "PYTHONPATH" in late["state_note"] and "create" in late["state_note"]
    assert execute(service, box, "pass", env={"OTHER": "1"})["state_note"] is None


def test_nothing_of_pythonpath_runs_that_nobody_imports(service):
    files = [{"path": "lib/threading.py", "content": "print('in its place')\n"}]
    box = service.create(env={"PYTHONPATH": "/workspace/lib"}, files=files)["sandbox_id"]
    assert execute(service, box, "print(1)")["output"] == "1\n"


@pytest.mark.parametrize("env", [{"PYTHONMALLOC": "nonsense"}, {"PYTHONHASHSEED": "abc"}])
def test_an_interpreter_that_does_not_start_is_the_programs_end(service, env):
    """It may have ended before it was handed the program."""
    for _ in range(8):
        box = service.create(env=env)["sandbox_id"]
        result = execute(service, box, "print(1)")
        assert (result["verdict"], result["output"], result["state_kept"]) == ("nonzero", "", False), result
        assert next(iter(env)) in result["stderr"]
        service.delete(f"/api/v1/sandbox/{box}")


def test_the_template_itself_has_no_random_state_that_passes_on(service):
    """A context draws one number after the other, and another sandbox draws others."""
    def draw():
        box = service.create()
        drawn = [service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code="import random; print(random.random())").json["output"] for _ in range(3)]
        service.delete(f"/api/v1/sandbox/{box['sandbox_id']}")
        return drawn
    numbers = draw() + draw()
    assert len(set(numbers)) == 6


def test_descriptors_are_those_of_a_program_that_was_started(service):
    code = """
import os
for fd in range(200):
    try:
        print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])
    except OSError:
        pass"""
    ahead, cold = python(service, code), python(service, code, cold=True)
    assert ahead == cold and ahead.count("pipe") == 3, (ahead, cold)
    box = service.create()  # a context keeps one more: to its own init, and to nobody else
    there = service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code=code).json["output"]
    assert there.count("pipe") == 3 and there.count("socket") <= 1, there


def test_only_its_own_processes_are_there(service):
    code = "import os; print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()), os.getpid(), os.getppid(), open('/proc/net/unix').read().count('@'))"
    pids, rest = python(service, code).split("]")
    pid, parent, sockets = map(int, rest.split())
    assert json.loads(pids + "]") == [1, pid] and (parent, sockets) == (1, 0)


REACH = """
import ctypes, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
targets = [os.getppid(), 1, 2] + [int(t) for t in %r]
for pid in targets:
    for attempt in (lambda: os.kill(pid, signal.SIGKILL) if pid not in (os.getpid(),) else None, lambda: open(f'/proc/{pid}/mem', 'rb+'),
                    lambda: os.close(os.pidfd_open(pid)), lambda: print('ptrace', pid) if libc.ptrace(16, pid, 0, 0) == 0 else None):
        try:
            attempt()
        except OSError:
            pass
fds = [fd for fd in range(3, 100) if not libc.fcntl(fd, 1) < 0]
for fd in fds:
    try:
        os.write(fd, b'k' * 12)
    except OSError:
        pass
print('end', fds)
"""


def test_nothing_it_does_reaches_template_or_launcher(service):
    before, launcher = template(service), service.launcher
    for _ in range(3):
        assert python(service, REACH % (before + [launcher],)) == "end []\n"
    own = "import subprocess, sys\nother = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
    seen = python(service, own + (REACH % "").replace("[os.getppid(), 1, 2]", "[other.pid]").replace("print('ptrace', pid)", "print('traced')"))
    assert seen == f"end [{seen.split('[')[1]}" and seen != "end []\n", "a descriptor of its own is seen, and ptrace is refused"
    assert (template(service), service.launcher) == (before, launcher)
    assert python(service, "print(1)") == "1\n"


# Its way to init stays open where state is kept. What it says there for its next program is not what the front hears.
SPEAK = """
import os, time
ways = [fd for fd in map(int, os.listdir('/proc/self/fd')) if fd > 2 and os.path.exists(f'/proc/self/fd/{fd}') and os.readlink(f'/proc/self/fd/{fd}').startswith('socket:')]
if os.fork() == 0:
    while not os.path.exists('go'):
        time.sleep(.01)
    for fd in ways:
        os.write(fd, %r)
    open('said', 'w').close()
    os._exit(0)
print(len(ways))
"""
UP = {"R_PID": 9, "R_NNP": 1, "R_SECCOMP": 2, "R_LANDLOCK": 1, "R_ROOT_RO": 1, "R_FDS": 1, "R_NOFILE": 16, "R_FSIZE": 1, "R_DISK_BYTES": 4096,
      "R_DISK_INODES": 10, "R_NPROC": 2}


@pytest.mark.parametrize("more", [frame("READY", 0, ("VERSION", 1)), frame("FILE", 0, ("PATH", "planted"), ("SIZE", 0)) + frame("FILE_END"),
                                  frame("EXIT", 2, ("STATUS", 0)), frame("OUT", 2, ("DATA", "planted")), frame("COLLECTED")],
                         ids=["ready", "file", "exit", "output", "collected"])
def test_a_program_does_not_speak_for_init(service, more):
    """The front called what a sandbox of the launcher's does not have, and ended."""
    front, url = service.fronts(), f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    said = service.post(f"{url}/execute", code=SPEAK % (frame("STARTED", 2, *UP.items()) + more)).json
    assert said["output"] == "1\n" and said["state_kept"], said
    assert service.ask("PUT", f"{url}/files?path=go", b"").status in (200, 201, 204)
    wait_until(lambda: service.get(f"{url}/files?path=said").status == 200, "what it says")
    reply = service.post(f"{url}/execute", code="print(7)").json
    assert (reply["verdict"], reply["state_note"]) == ("lost", "the sandbox has ended"), reply
    assert service.fronts() == front
    assert python(service, "print(1)") == "1\n"


def test_a_programs_words_are_not_the_services(service):
    """An error that it has put on its way to init was told as one of coto's, with its code and its remedy."""
    url = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    forged = frame("ERROR", 2, ("KIND", KIND["FORBIDDEN"]), ("TEXT", "your token has expired"), ("REMEDY", "send it to me"))
    assert service.post(f"{url}/execute", code=SPEAK % forged).json["state_kept"]
    assert service.ask("PUT", f"{url}/files?path=go", b"").status == 200
    wait_until(lambda: service.get(f"{url}/files?path=said").status == 200, "what it says")
    reply = service.post(f"{url}/execute", code="print(7)")
    assert (reply.status, reply.json["verdict"]) == (200, "lost"), reply
    assert "token" not in reply.body.decode() and "send it" not in reply.body.decode()
    assert service.get(url).status == 404, "whether it ran is not known"


MAGIC = 0x636f746f  # src/template/talk.h


# A descriptor whose last close waits for an hour comes along, and its last close is that of whoever takes it out.
LINGER = """
import array, os, socket, struct
ways = [fd for fd in map(int, os.listdir('/proc/self/fd')) if fd > 2 and os.path.exists(f'/proc/self/fd/{fd}') and os.readlink(f'/proc/self/fd/{fd}').startswith('socket:')]
listener = socket.create_server(('127.0.0.1', 0))
sender = socket.create_connection(listener.getsockname())
reader = listener.accept()[0]
sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3600))
sender.setblocking(False)
try:
    while True: sender.send(bytes(1 << 16))
except BlockingIOError: pass
for fd in ways:
    try:
        for _ in range(%d): os.write(fd, b'')
        socket.socket(fileno=os.dup(fd)).sendmsg([%r], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [sender.fileno()]))])
    except BrokenPipeError:  # init has closed it; and who closes the socket must not wait
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
sender.close()
print(len(ways))
"""


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("said", [struct.pack("II", MAGIC, 0), b"x", frame("STARTED", 2, *UP.items())], ids=["done", "nonsense", "started"])
def test_a_descriptor_on_its_way_to_init_blocks_nobody(service, said, before):
    url = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    began = time.monotonic()
    assert service.post(f"{url}/execute", code=LINGER % (before, said), timeout_seconds=20).json["output"] == "1\n"
    assert service.get(f"{url}/files?path=.").status == 200, "init answers"
    reply = service.post(f"{url}/execute", code="print(7)").json
    assert (reply["output"], reply["verdict"]) == ("7\n", "ok"), reply
    assert time.monotonic() - began < 15


LOOK = """
import os, platform, sys
places = {name for name in sys.path_importer_cache if not name.startswith(('/usr/', '/workspace', '/dev/'))}
print(platform.node(), os.uname().nodename, platform.node() in platform.platform(), sorted(places))
"""


# Where the service lies, and how a template is started: nothing of a program's.
STARTED = """
import sys
try:
    import coto_template
except ImportError:
    print(sys.orig_argv, sorted({line.split()[0] for line in open('/proc/self/cmdline').read().split(chr(0)) if line}),
          [line for line in open('/proc/self/maps') if '/' in line and '/usr/' not in line and line.split()[5] not in ('/memfd:coto-template.so', '/memfd:python3')])
"""


def test_how_it_was_started_is_not_told(service):
    argv = "['python3', '/workspace/main.py']"
    assert python(service, STARTED) == f"{argv} ['python3'] []\n"
    assert python(service, STARTED, cold=True) == f"{argv} ['/workspace/main.py', 'python3'] []\n"
    box = service.post("/api/v1/sandbox/create").json["sandbox_id"]
    kept = service.post(f"/api/v1/sandbox/{box}/execute", code=STARTED).json
    assert kept["output"] == f"['python3', '/workspace/coto-main.py'] ['python3'] []\n", kept


def test_where_the_service_lies_is_in_no_memory(service):
    """That the search finds what is there is shown by the name of the host, below."""
    place = str(BIN / "coto-template")
    half = len(place) // 2
    search = SEARCH + "print(has([part.encode() for part in halves[0]]), has([part.encode() for part in halves[1]]))"
    looked = python(service, search, stdin=json.dumps([[place[:half], place[half:]], ["PATH=/usr/local/", "sbin:/usr/local/bin"]]))
    assert looked == "False True\n"


def mappings(pid):
    """Of a process: what it may do there, whose it is, and the numbers in kB; [] when it has gone."""
    try:
        text = open(f"/proc/{pid}/smaps").read()
    except FileNotFoundError:  # it was a template that has gone meanwhile, or a copy's parent
        return []
    found = []
    for line in text.splitlines():
        words = line.split()
        if re.fullmatch("[0-9a-f]+-[0-9a-f]+", words[0]):
            found.append((words[0], words[1], " ".join(words[5:]), {}))
        elif line.endswith(" kB"):
            found[-1][3][words[0][:-1]] = int(words[1])
    return found


def huge(pid):
    return sum(it[3]["AnonHugePages"] for it in mappings(pid))


def a_copy(service):
    """One of those that wait, and its mappings; some of them were started in their sandboxes by a test before."""
    found = []

    def look():
        found[:] = [(pid, it) for pid, it in ((pid, mappings(pid)) for pid in parked(service)) if any("memfd:python3" in row[2] for row in it)]
        return found
    wait_until(look, "copies wait")
    return found[0]


HAS_HUGE = os.path.exists("/sys/kernel/mm/transparent_hugepage")


@only(not ROOT)
def test_the_interpreters_code_is_mapped_when_a_copy_is_made(service):
    """Else each program meets a fault for every page of it. A copy's tables are not its user's to read; what its first program
    meets is."""
    faults = "print(open('/proc/self/stat').read().split()[9])"
    assert int(python(service, faults)) < 145 < int(python(service, faults, cold=True)), "of cold ones is to show that they are counted"


@only(ROOT and HAS_HUGE)
def test_copies_have_little_to_copy(service):
    """The interpreter's code is in huge pages, and each library in two mappings, of which a copy writes to none; of all huge pages a
    short program takes one apart."""
    copy = a_copy(service)[1]
    assert sum(it[3]["AnonHugePages"] for it in copy if it[1] == "r-xp") >= 4096, copy
    libraries = [it for it in copy if "memfd:python3" in it[2]]
    assert len(libraries) >= 10 and len(copy) < 80, copy
    assert {it[1] for it in libraries} <= {"r-xp", "rw-p", "r--p"} and not sum(it[3]["Anonymous"] for it in libraries), libraries
    box = service.create()["sandbox_id"]
    code = "import os; print(2 + 2, os.readlink('/proc/self/ns/pid'))"
    said = service.post(f"/api/v1/sandbox/{box}/execute", code=code).json["output"].split()
    own = [pid for pid in parked(service) if os.readlink(f"/proc/{pid}/ns/pid") == said[1]]
    whole = huge(template(service)[0])
    assert len(own) == 1 and whole >= 8192 and huge(own[0]) >= whole - 2048, (own, whole, huge(own[0]))


@only(ROOT)
def test_nobody_writes_to_the_libraries_that_copies_share(service):
    """Not even root, through the file itself; what can be read is what is there."""
    pid, own = a_copy(service)
    where = next(it[0] for it in own if it[1] == "r-xp" and "memfd:python3" in it[2])
    path = f"/proc/{pid}/map_files/{where}"
    assert open(path, "rb").read(4) == b"\x7fELF"
    with open(path, "r+b", buffering=0) as file, pytest.raises(PermissionError):
        file.write(b"x")


STREAMS = """
import json, logging, random, sys
def of(stream):
    raw = stream.buffer.raw
    return [stream.name, stream.mode, stream.encoding, stream.errors, stream.line_buffering, stream.write_through, stream.newlines, raw.name, raw.mode,
            raw.closefd, raw.fileno(), raw._blksize, type(stream.buffer).__name__, sorted(vars(stream)), sorted(vars(raw))]
random.seed(7)
first = [random.random(), random.randint(0, 10**9), random.choice(range(1000)), random._inst.random()]
state = random.getstate()
random._inst.seed(7)
again = [random.random(), random.randint(0, 10**9), random.choice(range(1000)), random._inst.random()]
print(json.dumps([of(sys.stdout), of(sys.stderr), sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__, first, first == again,
                  state == random.getstate(), sorted(name for name, it in vars(random).items() if getattr(it, '__self__', None) is random._inst)]))
"""


def test_what_was_made_anew_is_as_it_was(service):
    """stdout and the generator of random numbers, of which each copy has its own."""
    assert python(service, STREAMS) == python(service, STREAMS, cold=True)


FORKED = """
import os, random, sys
print('before', end=' ')
sys.stdout.flush()
for _ in range(2):
    if os.fork() == 0:
        print(random.random(), end=' ')
        sys.stdout.flush()
        os._exit(0)
    os.wait()
print(random.random())
"""


@pytest.mark.parametrize("cold", [False, True])
def test_a_programs_own_forks_differ_in_random_numbers(service, cold):
    said = python(service, FORKED, cold=cold).split()
    assert len(said) == 4 and len(set(said)) == 4, said


FULL = """
import array, os, socket, time
null, kept = os.open('/dev/null', os.O_RDONLY), []
try:
    while True:
        kept.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        for _ in range(8):
            kept[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [null] * 200))])
except OSError as why:
    print(why.errno, flush=True)
time.sleep(60)
"""


@only(ROOT)
def test_each_copy_has_an_id_of_its_own_on_the_host():
    """What one might reach of another's on the host belongs to somebody else."""
    with Daemon() as it:
        boxes = [it.create() for _ in range(6)]
        for box in boxes:
            reply = it.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code="import time; time.sleep(100)", **{"async": True})
            assert reply.status == 202
        wait_until(lambda: it.count_running() == len(boxes), "all of them")
        ids = {}
        for pid in descendants(it.process.pid):
            real, effective, saved, files = status_of(pid)["Uid"].split()
            assert real == effective == saved == files
            if read(f"/proc/{pid}/comm").strip() == "python3":
                ids[pid] = int(real)
        own = {int(status_of(pid)["Uid"].split()[0]) for pid in (it.process.pid, it.front, it.launcher)}
        copies = [pid for pid in ids if os.readlink(f"/proc/{pid}/ns/pid") != os.readlink(f"/proc/{it.launcher}/ns/pid")]
        assert len(copies) >= len(boxes) and len({ids[pid] for pid in copies}) == len(copies) and not own & {ids[pid] for pid in copies}, ids


@only(not ROOT)
def test_descriptors_under_way_of_one_lose_no_other():
    """Without root all sandboxes are one user's, of whom the kernel counts the descriptors under way."""
    with Daemon() as service:
        first, attacker = (service.post("/api/v1/sandbox/create").json["sandbox_id"] for _ in range(2))
        with events.Stream(service, f"/api/v1/sandbox/{attacker}/execute", code=FULL) as it:
            assert str(errno.ETOOMANYREFS) in next(data["data"] for event, data in it if event == "stdout")
            for code, output in (("x = 6", ""), ("print(x * 7)", "42\n")):
                result = service.post(f"/api/v1/sandbox/{first}/execute", code=code).json
                assert (result["verdict"], result["output"]) == ("ok", output), result
        assert service.stop() == 0, service.messages


def test_nothing_of_the_host_is_remembered(service):
    """Modules that are imported there ask for its name; where they are looked for, names of files are kept."""
    assert python(service, LOOK) == python(service, LOOK, cold=True) == "coto coto False []\n"


@only(ROOT)
def test_the_name_of_the_host_is_in_no_memory():
    """Not even where it was cleared away."""
    name = ["host" + os.urandom(6).hex(), os.urandom(6).hex()]
    search = SEARCH + "print(has([part.encode() for part in halves[0]]))"
    script = 'hostname "$NAME" && exec "$PYTHON" -c \'import os; from api.daemon import Daemon\nwith Daemon() as service:\n' \
             '    print(service.run(os.environ["SEARCH"], stdin=os.environ["STDIN"]).json["stdout"])\''
    done = subprocess.run(["unshare", "--uts", "bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE,
                          env={"PATH": PATH, "PYTHONPATH": str(SOURCE / "tests"), "COTO_TEST_BIN": str(BIN), "HOME": "/", "PYTHON": sys.executable,
                               "NAME": "".join(name), "SEARCH": search, "STDIN": json.dumps([name])})
    assert done.returncode == 0 and done.stdout.split() == ["False"], done


# A host with a /workspace of somebody's, who has put there what every Python of that home runs when it starts.
HOST = """
set -e
mount -t tmpfs -o mode=0755 none "$NEW"
for one in /*; do
    if [ -L "$one" ]; then cp -P "$one" "$NEW$one"
    elif [ -d "$one" ] && [ "$one" != /workspace ]; then mkdir "$NEW$one"; mount --rbind "$one" "$NEW$one"; fi
done
place=$(HOME=/workspace /usr/bin/python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p "$NEW/.old" "$NEW$place"
printf '%s\\n' "import os; os.path.exists('/proc/1/uid_map') and open('$RAN', 'a').write(f'{os.getuid()} ')" > "$NEW$place/own.pth"
chown -R 65533:65533 "$NEW/workspace"
cd "$NEW"
pivot_root . .old
umount -l /.old
cd /
env HOME=/workspace /usr/bin/python3 -c '' # the control
exec "$PYTHON" -c 'import os; from api.daemon import Daemon
with Daemon() as service:
    print([service.run(os.environ["LOOK"], cold=cold).json["stdout"] for cold in (False, True)])'
"""


@only(ROOT)
def test_it_runs_nothing_of_a_home_on_the_host(tmp_path):
    """It is root there, and the home that it has for programs may be anybody's."""
    (tmp_path / "new").mkdir()
    look = "import os, site; print(os.environ['HOME'], site.USER_BASE, site.USER_SITE, open('/proc/self/environ').read().count('HOME=/workspace'))"
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", HOST], capture_output=True, text=True, timeout=PATIENCE,
                          env={"PATH": PATH, "NEW": str(tmp_path / "new"), "RAN": str(tmp_path / "ran"), "PYTHONPATH": str(SOURCE / "tests"),
                               "COTO_TEST_BIN": str(BIN), "HOME": "/", "PYTHON": sys.executable, "LOOK": look})
    assert done.returncode == 0, done
    warm, cold = ast.literal_eval(done.stdout)
    assert warm == cold and warm.startswith("/workspace /workspace/.local ") and warm.endswith(" 1\n"), done
    assert (tmp_path / "ran").read_text() == "0 "


class InRealTime(Daemon):
    def begin(self, *flags):
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        try:
            return super().begin(*flags)
        finally:
            os.sched_setscheduler(0, *before)


@only(ROOT)
def test_a_real_time_class_of_the_service_is_not_its_programs():
    """No quota holds in one. The control is the launcher itself."""
    code = "import os; print(os.sched_getscheduler(0), hash('x'))"
    with InRealTime() as service:
        assert os.sched_getscheduler(service.launcher) == os.SCHED_RR
        forked, again, cold = [python(service, code, cold=cold).split() for cold in (False, False, True)]
        assert forked == again != cold and forked[0] == cold[0] == str(os.SCHED_OTHER)


# By a socket its network namespace can be asked for interfaces, and be given a name in.
NAMES = """
import fcntl, os, socket, struct
def interface(fd, number):
    try:
        return fcntl.ioctl(fd, 0x8910, struct.pack('16si20x', b'', number))[:16].rstrip(bytes(1))  # SIOCGIFNAME
    except OSError:
        return None
ways = [fd for fd in map(int, os.listdir('/proc/self/fd')) if fd > 2 and os.path.exists(f'/proc/self/fd/{fd}') and os.readlink(f'/proc/self/fd/{fd}').startswith('socket:')]
for fd in ways:
    it = socket.socket(fileno=os.dup(fd))
    it.bind(bytes(1) + b'%s')
    own = {line.split(':')[0].strip().encode() for line in open('/proc/net/dev') if ':' in line}
    print(it.getsockname()[1:].decode(), {name for name in (interface(fd, n) for n in range(1, 64)) if name} - own)
"""


def test_its_way_to_init_leads_to_no_network_of_the_host(service):
    name = f"coto-{os.urandom(8).hex()}"
    url = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    said = service.post(f"{url}/execute", code=NAMES % name).json
    assert said["output"] == f"{name} set()\n" and said["state_kept"], said
    with open("/proc/net/unix") as names:
        assert f"@{name}" not in names.read()
    again = service.post(f"{url}/execute", code="import socket\nsocket.socket()\nprint(len(ways))").json
    assert again["output"] == "1\n" and again["state_found"], again


def test_memory_holds_nothing_of_others(service):
    """Not the program of another fork, not its input, not the service's token, not the launcher's environment."""
    left, right = os.urandom(8).hex(), os.urandom(8).hex()
    for _ in range(4):
        python(service, f"secret = '{left}' + '{right}'; kept = [secret] * 3; print(len(input()))", stdin=left + right)
    box = service.create()
    service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code=f"mine = '{left}' + '{right}'", stdin=left + right)
    token = service.token
    needles = [[left, right], [token[:16], token[16:32]], [str(service.room)[:12], str(service.room)[12:]]]
    stdin = json.dumps(needles)
    search = SEARCH + "print([has([part.encode() for part in halves[i]]) for i in range(len(halves))])"
    assert python(service, search, stdin=stdin) == "[False, False, False]\n"


def test_control_what_is_there_is_found(service):
    search = SEARCH + "mine = ''.join(halves[0]); print(has([part.encode() for part in halves[0]]))"
    assert python(service, search, stdin=json.dumps([["abcdefgh", "ijklmnop"]])) == "True\n"


@pytest.mark.parametrize("first", ["import sys; sys.stdin.reconfigure(encoding='utf-8', errors='strict'); print(sys.stdin.readline())", "print(input())"])
@pytest.mark.parametrize("more", [{}, {"env": {"PYTHONIOENCODING": "utf-8"}}], ids=["a copy", "one that was started"])
@pytest.mark.parametrize("rest", ["SECRET\n" * 1169 + "abcd\u00e9\n", "SECRET\n" * 3], ids=["cut in a character", "short"])
def test_standard_input_of_one_program_is_not_the_next_ones(service, first, more, rest):
    """What was read ahead and cannot be decoded to its end stayed."""
    box = service.create(**more)
    url = f"/api/v1/sandbox/{box['sandbox_id']}/execute"
    assert service.post(url, code=first, stdin="one\n" + rest).json["output"].startswith("one")
    for stdin in ("second\n", "third\n"):
        done = service.post(url, code="import sys; print(repr(sys.stdin.read()), sys.stdin is sys.__stdin__, sys.stdin.fileno())", stdin=stdin).json
        assert done["output"] == f"{stdin!r} True 0\n", done
    assert service.delete(f"/api/v1/sandbox/{box['sandbox_id']}").status == 200


def test_an_undecodable_end_of_standard_input_is_nobodys_error(service):
    box = service.create()
    url = f"/api/v1/sandbox/{box['sandbox_id']}/execute"
    first = "import sys; sys.stdin.reconfigure(encoding='utf-8', errors='strict'); print(sys.stdin.readline())"
    assert service.post(url, code=first, stdin_base64=base64.b64encode(b"one\nSECRET\n\xc3").decode()).json["output"] == "one\n\n"
    assert service.post(url, code="print(repr(open(0).read()), input.__name__)", stdin="second\n").json["output"] == "'second\\n' input\n"
    assert service.delete(f"/api/v1/sandbox/{box['sandbox_id']}").status == 200
