"""Sandboxes of a service that is root share one read-only root file system. What that must not give
them: a way to write to it, to see what lies beneath, or to tell each other anything."""
import json

import pytest

LOOK = """
import json, os
def tell(function, *args):
    try:
        return function(*args) or 0
    except OSError as error:
        return error.errno
rows = [line.split() for line in open('/proc/self/mountinfo')]
print(json.dumps({
    'mounts': {row[4]: row[5].split(',')[0] for row in rows},
    'twice': sorted({row[4] for row in rows if [r[4] for r in rows].count(row[4]) > 1}),
    'top': sorted(os.listdir('/')), 'tmp': os.listdir('/tmp'), 'owner': os.stat('/').st_uid,
    'etc': tell(os.open, '/etc/passwd', os.O_WRONLY), 'new': tell(os.mkdir, '/new'),
    'chmod': tell(os.chmod, '/etc/passwd', 0o777), 'utime': tell(os.utime, '/etc'),
    'masked': tell(os.open, '/proc/kallsyms', os.O_RDONLY),
    'sysctl': tell(os.open, '/proc/sys/kernel/hostname', os.O_WRONLY),
    'pids': sorted(int(name) for name in os.listdir('/proc') if name.isdigit())[:1],
    'oom': open('/proc/1/oom_score_adj').read(), 'own': os.stat('/workspace').st_uid == os.getuid(),
    'inotify': open('/proc/sys/user/max_inotify_instances').read(),
    'backlog': open('/proc/sys/net/core/somaxconn').read(),
    'closed': open('/proc/sys/net/ipv4/tcp_max_tw_buckets').read(),
}))
"""


@pytest.fixture(scope="module")
def seen(service):
    reply = service.post("/api/v1/run", code=LOOK)
    assert reply.status == 200 and reply.json["verdict"] == "ok", reply
    return json.loads(reply.json["stdout"])


def test_it_is_shared(seen):
    """The control: without this the rest would be about a root of the sandbox's own."""
    assert seen["twice"] == ["/proc"] and seen["owner"] == 65534


def test_nothing_in_it_can_be_written(seen):
    writable = {path for path, mode in seen["mounts"].items() if mode == "rw"}
    assert writable == {"/tmp", "/dev/shm", "/workspace"}
    assert all(seen[what] in (13, 30) for what in ("etc", "new", "utime", "chmod")), "EACCES or EROFS"
    assert seen["own"]


def test_nothing_of_how_it_was_made_is_seen(seen):
    ours = {"dev", "etc", "proc", "run", "tmp", "usr", "var", "workspace"}
    links = {"bin", "sbin", "lib", "lib64", "lib32", "libx32"}
    assert ours <= set(seen["top"]) <= ours | links and seen["tmp"] == []


def test_proc_is_the_sandboxs_own(seen):
    assert seen["pids"] == [1] and seen["masked"] == 13 and seen["sysctl"] in (13, 30)
    assert (seen["oom"], seen["inotify"], seen["backlog"], seen["closed"]) == ("1000\n", "8\n", "64\n", "8192\n")


def test_what_one_leaves_no_other_finds(service):
    put = "for d in ('/tmp', '/dev/shm', '/workspace', '/workspace/output'): open(d + '/left', 'w').write('x')"
    find = "import os; print([d for d in ('/tmp', '/dev/shm', '/workspace', '/workspace/output') " \
           "if os.path.exists(d + '/left')])"
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}/execute"
    assert service.post(path, code=put).json["exit_code"] == 0
    assert service.post(path, code=find).json["output"] == \
        "['/tmp', '/dev/shm', '/workspace', '/workspace/output']\n", "the control"
    assert service.post("/api/v1/run", code=find).json["stdout"] == "[]\n"
