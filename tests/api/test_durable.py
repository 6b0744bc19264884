"""Nothing acknowledged is lost; trouble with the state directory is told (DR-01, DR-07 to DR-09)."""
import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import pytest

from cli.helpers import only

from .helpers import BIN, PATIENCE, ROOT, SIZE_ANY, Service, promised, wait_until

EXECUTIONS = "/api/v1/executions"


# ---- kill -9 ----

def work(service, stop, told):
    """Runs until the service is gone, half of them with a key; what was answered goes to told."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        while not stop.is_set():
            key = random.choice((f"{threading.get_ident()}-{time.monotonic_ns()}", None))
            reply = service.run("pass", key=key)
            assert reply.status == 200, reply
            told.append({**reply.json, "key": key})


def restart(service):
    service.kill()
    service.start()


def kill_at_work(service, told, kill=restart):
    """Kills it while eight clients are served."""
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(work, service, stop, told) for _ in range(8)]
        wanted = len(told) + random.randrange(20, 60)
        wait_until(lambda: len(told) >= wanted or any(it.done() for it in futures), "some answers")
        time.sleep(random.random() * 0.02)
        kill(service)
        stop.set()
        for it in futures:
            it.result(PATIENCE)


@pytest.mark.parametrize("durability, kill", [
    ("promises", restart), ("disk", restart), ("kernel", restart), ("disk", Service.kill_front),
], ids=["promises", "disk", "kernel", "front"])
def test_what_was_acknowledged_survives_kill(make_service, durability, kill):
    service = make_service(f"--durability={durability}")
    told = []
    for _ in range(4):
        kill_at_work(service, told, kill)
        rows = {row["id"]: row for row in service.rows("SELECT * FROM executions")}
        promised({it["execution_id"] for it in told} <= set(rows), "an execution that was told is not recorded")
        for it in told:
            row = rows[it["execution_id"]]
            promised((row["verdict"], row["exit_code"], row["started"]) == (it["verdict"], it["exit_code"], it["started_at"]),
                     (row, it))
        assert {row["verdict"] for row in rows.values()} <= {"ok", "interrupted"}
    kept = service.rows("SELECT count(*) AS n FROM idempotency")[0]["n"]
    with_key = sum(it["key"] is not None for it in told)
    promised(kept >= with_key, "a key that was told is not recorded")
    assert 0 < with_key < len(told)


def test_without_durability_the_last_can_be_lost(make_service):
    """The control of the test above: it would see a loss."""
    service = make_service("--durability=off")
    told = []
    for _ in range(40):
        kill_at_work(service, told)
        kept = {row["id"] for row in service.rows("SELECT id FROM executions WHERE verdict = 'ok'")}
        if {it["execution_id"] for it in told} - kept:
            return
    pytest.fail("nothing was ever lost")


def test_what_ran_is_interrupted(make_service):
    service = make_service()
    box = service.create()
    def hang():
        with contextlib.suppress(OSError, http.client.HTTPException):
            service.run("import time; time.sleep(100)")
    threads = [threading.Thread(target=hang) for _ in range(5)]
    for it in threads:
        it.start()
    def running():
        return [row for row in service.get(EXECUTIONS).json["executions"] if row["state"] == "running"]
    before = wait_until(lambda: len(running()) == 5 and running(), "the start of five")
    assert {row["verdict"] for row in before} == {None}
    service.kill()
    for it in threads:
        it.join()
    service.start()
    after = {row["execution_id"]: row for row in service.get(EXECUTIONS).json["executions"]}
    for row in before:
        assert after[row["execution_id"]]["state"] == "interrupted"
        assert after[row["execution_id"]]["verdict"] is None
    row, = service.rows("SELECT * FROM sandboxes WHERE id = ?", box["sandbox_id"])
    assert row["state"] == "interrupted"
    assert service.get(f"/api/v1/sandbox/{box['sandbox_id']}").status == 404


def begun(service):
    """Async executions that have a process."""
    return {path.stem for path in (service.state / "async").glob("*.lock") if path.stat().st_size > 0}


def test_what_was_accepted_leads_to_its_end(make_service):
    """async: the id that was told is known after kill -9; what had not begun runs in the next life."""
    service = make_service("--workers=3")
    told = [service.run("import time; time.sleep(100)", **{"async": True}).json["execution_id"]
            for _ in range(6)]
    bad = service.run("pass", profile="nosuch", **{"async": True})
    assert bad.status in (202, 400), bad
    told += [bad.json["execution_id"]] if bad.status == 202 else []
    # "running" is recorded a moment before there is a process that could be lost
    wait_until(lambda: len(begun(service)) == 2, "the start of two")
    assert begun(service) == set(told[:2])
    assert service.get(f"{EXECUTIONS}/{told[5]}").json["state"] == "queued"
    restart(service)
    for one in told[:2]:
        wait_until(lambda: "lost" in service.get(f"{EXECUTIONS}/{one}").json.get("error", {}).get("message", ""), one)
    for one in told[2:6]:
        assert service.get(f"{EXECUTIONS}/{one}").json["state"] in ("queued", "running"), one
        assert service.delete(f"{EXECUTIONS}/{one}").status == 202
        wait_until(lambda: service.get(f"{EXECUTIONS}/{one}").json["verdict"] == "killed", one)
    for one in told[6:]:
        assert service.get(f"{EXECUTIONS}/{one}").json["state"] == "error"


@pytest.mark.parametrize("text", ['{"a":1.10,"b":[123456789012345678901234567890]}', '"a text"', "7"])
def test_what_waits_for_the_next_life_keeps_its_input(make_service, text):
    service = make_service("--workers=1")
    service.run("import time; time.sleep(100)", **{"async": True})
    wait_until(lambda: begun(service), "the start of the first")
    body = '{"code": "import sys; print(sys.stdin.read())", "async": true, "input": %s}' % text
    path = f"{EXECUTIONS}/{service.ask('POST', '/api/v1/run', body).json['execution_id']}"
    restart(service)
    row = wait_until(lambda: (it := service.get(path).json)["state"] in ("finished", "error") and it, "the end")
    assert row["state"] == "finished" and row["result"]["stdout"] == f"{text}\n", row.get("error") or row["result"]["stdout"]


def test_what_was_killed_while_it_began_begins_in_the_next_life(make_service):
    """Its request had a name for a moment, which is still there."""
    service = make_service("--workers=1")
    service.run("import time; time.sleep(100)", **{"async": True})
    wait_until(lambda: begun(service), "the start of the first")
    execution = service.run("print(5)", **{"async": True}).json["execution_id"]
    service.kill()
    left, folder = service.state / "async" / f"{execution}.in", (service.state / "async").stat()
    left.touch(0o600)
    os.chown(left, folder.st_uid, folder.st_gid)
    service.start()
    row = wait_until(lambda: (it := service.get(f"{EXECUTIONS}/{execution}").json)["state"] in ("finished", "error") and it, "the end")
    assert row["state"] == "finished" and row["result"]["stdout"] == "5\n", row


def test_what_is_accepted_and_cannot_begin_has_an_end(make_service):
    service = make_service()
    reply = service.run("pass", profile="nosuch", **{"async": True})
    if reply.status == 202:
        path = f"{EXECUTIONS}/{reply.json['execution_id']}"
        wait_until(lambda: service.get(path).json["state"] == "error", "the end")
        restart(service)
        assert service.get(path).json["state"] == "error"
    else:
        assert reply.status == 400 and not service.rows("SELECT * FROM executions")


def test_an_end_in_order_loses_nothing_without_durability(make_service):
    service = make_service("--durability=off")
    told = {service.run("pass").json["execution_id"] for _ in range(10)}
    box = service.create()
    assert service.stop() == 0
    assert told <= {row["id"] for row in service.rows("SELECT id FROM executions WHERE verdict = 'ok'")}
    row, = service.rows("SELECT * FROM sandboxes WHERE id = ?", box["sandbox_id"])
    assert row["state"] == "destroyed"


# ---- two of them (DR-09) ----

def test_a_second_service_on_the_same_state_is_refused(make_service):
    service = make_service()
    second = make_service(start=False)
    second.state = service.state
    for _ in range(2):
        status, text = second.fails()
        assert status == 75 and "in use by another coto serve" in text and "--state-dir" in text
    assert service.run("print(1)").json["stdout"] == "1\n"
    assert service.stop() == 0
    second.start()
    assert second.run("print(2)").json["stdout"] == "2\n"
    second.kill()


# ---- files that are not as they should be (DR-08) ----

def damaged(service):
    with open(service.state / "records.db", "r+b") as file:
        file.seek(4096)
        file.write(b"noise" * 800)


def not_a_database(service):
    (service.state / "records.db").write_bytes(b"noise" * 4096)


def truncated(service):
    path = service.state / "records.db"
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 4096 // 2 * 4096)


def emptied(service):
    os.truncate(service.state / "records.db", 0)


def writable_for_all(service):
    (service.state / "records.db").chmod(0o666)


def newer(service):
    service.change("PRAGMA user_version = 99")


def foreign(service):
    service.change("PRAGMA application_id = 7")


def read_only(service):
    service.state.chmod(0o500)
    for path in service.state.iterdir():
        path.chmod(0o400)


def for_all(service):
    service.state.chmod(0o755)


@pytest.mark.parametrize("spoil, message", [
    (damaged, "damaged"), (not_a_database, "not a database"), (truncated, "records in"), (emptied, "it was cut"),
    (writable_for_all, "not private (mode 0666)"),
    (newer, "written by a newer coto (version 99"), (foreign, "not of coto"),
    (read_only, "readonly" if ROOT else "Permission denied"), (for_all, "not private"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_bad_state_is_refused_and_left_alone(make_service, spoil, message):
    service = make_service()
    for _ in range(20):
        service.run("pass")
    service.stop()
    spoil(service)
    before = (service.state / "records.db").read_bytes()
    for _ in range(2):
        status, text = service.fails()
        assert 0 < status < 128 and message in text, (status, text)
        assert len(text.strip().splitlines()[-1]) > 20  # a remedy
    assert (service.state / "records.db").read_bytes() == before
    service.process = None


def test_a_torn_log_costs_only_what_was_not_told(make_service):
    """The machine died while the log was written: its last, unfinished part is ignored."""
    service = make_service()
    told = {service.run("pass").json["execution_id"] for _ in range(10)}
    service.kill()
    with open(service.state / "records.db-wal", "ab") as file:
        file.write(b"\x5a" * 3000)
    service.start()
    assert told <= {row["id"] for row in service.rows("SELECT id FROM executions")}


# ---- a full disk (DR-07) ----

@contextlib.contextmanager
def full_disk(service):
    """Yields functions that fill the disk and make room: of a file system of its own as root, else a
    limit on the size of the service's files stands for it."""
    if not ROOT:
        service.start()
        yield lambda: service.limit_files((4096, -1)), lambda: service.limit_files(SIZE_ANY)
        return
    service.state.mkdir(0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", service.state], check=True)
    ballast = service.state / "ballast"
    def fill():
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
    try:
        service.start()
        yield fill, ballast.unlink
    finally:
        service.kill()
        subprocess.run(["umount", service.state], check=True)


def test_a_full_disk_refuses_runs_until_there_is_room(make_service):
    service = make_service(start=False)
    with full_disk(service) as (fill, make_room):
        first = service.run("print(1)").json["execution_id"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            going_on = pool.submit(service.run, "import time; time.sleep(1); print(2)")
            wait_until(lambda: service.rows("SELECT 1 FROM executions WHERE verdict IS NULL"), "the start")
            fill()
            refused = wait_until(lambda: (reply := service.run("print(3)")).status == 503 and reply)
            assert "records in" in refused.json["message"] and refused.json["remedy"]
            assert refused.headers["Retry-After"]
            assert service.get("/readyz").status == 503
            assert service.get("/healthz").status == 200
            assert service.get(f"{EXECUTIONS}/{first}").status == 200
            # what runs goes on to its end; that it ended cannot be promised
            late = going_on.result(PATIENCE)
            assert late.status == 503 and "could not be recorded" in late.json["message"]
        make_room()
        wait_until(lambda: service.get("/readyz").status == 200, "readiness")
        assert service.run("print(4)").json["stdout"] == "4\n"
        # by now the late one is there too
        assert {row["verdict"] for row in service.rows("SELECT * FROM executions")} == {"ok"}
        assert service.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert service.stop() == 0


@contextlib.contextmanager
def failing_disk(service):
    """Yields functions that have the kernel make the state read-only, as for a disk that fails, and bring it back."""
    image = service.room / "disk"
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    service.state.mkdir(0o700)
    run = lambda *command: subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", image)
    device = run("losetup", "--find", "--show", image)
    mount = lambda: run("mount", "-o", "errors=remount-ro", device, service.state)

    def again():
        service.kill()
        run("umount", service.state)
        mount()
        service.start()
    try:
        mount()
        os.chmod(service.state, 0o700)
        service.start()
        yield lambda: run("mount", "-o", "remount,abort", service.state), again
    finally:
        service.kill()
        subprocess.run(["umount", service.state], check=False)
        run("losetup", "--detach", device)


@only(ROOT) # a file system of its own
def test_a_disk_that_fails_refuses_runs_and_keeps_those_that_run(make_service):
    service = make_service(start=False)
    with failing_disk(service) as (fail, again):
        first = service.run("print(1)").json["execution_id"]
        box = service.create()
        path = f"/api/v1/sandbox/{box['sandbox_id']}"
        long = service.post(f"{path}/execute", code="import time; time.sleep(3); open('n', 'w').write('done')", **{"async": True}).json["execution_id"]
        wait_until(lambda: service.get(f"{EXECUTIONS}/{long}").json["state"] == "running", "the start")
        fail()
        refused = wait_until(lambda: (reply := service.run("print(3)")).status == 503 and reply, "a refusal")
        assert "records in" in refused.json["message"] and refused.json["remedy"], refused
        assert service.get("/readyz").status == 503 and service.get("/healthz").status == 200
        wait_until(lambda: service.get(f"{path}/files?path=n").body == b"done", "the end of what ran: nothing has ended it")
        assert service.get(f"{EXECUTIONS}/{first}").status == 200
        again()
        assert service.run("print(4)").json["stdout"] == "4\n"
        assert service.get(f"{EXECUTIONS}/{first}").json["verdict"] == "ok"
        assert service.get(f"{EXECUTIONS}/{long}").json["state"] != "running", "it has an end"
        assert service.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert service.stop() == 0


@only(ROOT) # a limit on the size of files is one of memory files too
def test_what_ends_while_the_disk_is_full_is_not_lost(make_service):
    """Neither its result nor the sandbox that it ran in."""
    service = make_service(start=False)
    with full_disk(service) as (fill, make_room):
        path = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
        execution = service.post(f"{path}/execute", code="import time; time.sleep(2); open('n', 'w').write('x'); print('late')", **{"async": True}).json["execution_id"]
        row = lambda: service.get(f"{EXECUTIONS}/{execution}").json
        wait_until(lambda: row()["state"] == "running" and (service.state / "async" / f"{execution}.lock").stat().st_size, "the start")
        fill()
        wait_until(lambda: service.get(f"{path}/files?path=n").body == b"x", "its end")
        assert service.get("/readyz").status == 503, "control: nothing was written"
        make_room()
        end = wait_until(lambda: (it := row())["state"] == "finished" and it, "the record")
        assert (end["verdict"], end["result"]["output"]) == ("ok", "late\n"), end
        assert service.post(f"{path}/execute", code="print(open('n').read())").json["output"] == "x\n"


SLOW_DISK = """
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int fd) { usleep(1000000); return (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { usleep(1000000); return (int)syscall(SYS_fdatasync, fd); }
"""


def test_the_loop_does_not_wait_for_the_disk(make_service):
    """Records are written by a thread of their own: whoever does not wait for one is answered meanwhile."""
    service = make_service("--durability=disk", start=False)
    library = service.room / "slow.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=SLOW_DISK, text=True, check=True, timeout=PATIENCE)
    library.chmod(0o755)
    service.before = lambda: os.environ.update(LD_PRELOAD=str(library))
    service.start()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            began = time.monotonic()
            runs = [pool.submit(service.run, "print(1)") for _ in range(4)]
            answered = 0
            while not all(run.done() for run in runs):
                answered += service.get("/healthz").status == 200
            assert time.monotonic() - began >= 1, "control: the disk is slow"
            assert {run.result().status for run in runs} == {200}
            assert answered > 20, "one at most where the loop waits"


def test_what_a_full_disk_kept_from_the_records_runs_once(make_service):
    """A front that begins with the promise still there finds what became of it, or that it is lost."""
    service = make_service(start=False)
    with full_disk(service) as (fill, make_room):
        path = f"/api/v1/sandbox/{service.create()['sandbox_id']}/execute"
        code = "import time; open('n', 'a').write('x'); time.sleep(2); print(open('n').read())"
        execution = service.post(path, code=code, **{"async": True}).json["execution_id"]
        row = lambda: service.get(f"{EXECUTIONS}/{execution}").json
        wait_until(lambda: row()["state"] == "running", "the start")
        fill()
        wait_until(lambda: service.get("/readyz").status == 503, "a record that could not be written")
        pid, = service.fronts()
        os.kill(pid, signal.SIGSTOP)  # it would write it now
        make_room()
        service.kill_front()
        end = wait_until(lambda: (it := row())["state"] not in ("queued", "running") and it, "the end")
        assert end["result"]["output"] == "x\n" if "result" in end else "lost" in end["error"]["message"], end
        wait_until(lambda: list((service.state / "async").iterdir()) == [], "its files gone, which comes after its record")


def test_memory_stays_flat(make_service):
    """Records pass through; they do not pile up."""
    service = make_service("--durability=kernel")
    def resident():
        if b"__asan_init" in (BIN / "coto-serve").read_bytes():
            return 0  # it keeps what was freed
        pid, = service.fronts()
        return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: service.run("pass"), range(100)))
        before = resident()
        list(pool.map(lambda _: service.run("pass"), range(300)))
    assert resident() < before + 1024
