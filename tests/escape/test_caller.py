"""Odd callers: what a parent left behind must change no verdict and lose no output."""
import json
import resource
import signal
import subprocess

import pytest

from cli.helpers import COTO, environment


def start(*args, before=None, **more):
    return subprocess.run([COTO, "run", *args], preexec_fn=before, capture_output=True, timeout=20,
                          env=environment(), stdin=subprocess.DEVNULL, **more)


@pytest.mark.parametrize("ignored", [signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ])
def test_ignored_signals(ignored):
    """Ignored signals survive execve: with SIGCHLD a death would never be heard of."""
    done = start("--json", "--timeout", "5s", "--", "sh", "-c", "(exit 3); sleep 0.05; exit 5",
                 before=lambda: signal.signal(ignored, signal.SIG_IGN))
    assert done.returncode == 5, done
    assert json.loads(done.stdout)["verdict"] == "nonzero"


def test_ignored_and_blocked_signals_do_not_reach_the_program():
    def spoil():
        signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 32)) - {9, 19})
        for number in (1, 2, 3, 13, 15, 17, 20, 21, 22):
            signal.signal(number, signal.SIG_IGN)
    done = start("--", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", before=spoil)
    assert done.stdout.split() == [b"SigBlk:", b"0" * 16, b"SigIgn:", b"0" * 16], done


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_ou_full_disk(stream):
    """Output that could not be written must not look like success."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([COTO, "run", "--", "sh", "-c", "echo out; echo err >&2"], timeout=20,
                              env=environment(), stdin=subprocess.DEVNULL,
                              **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full})
    assert done.returncode == 73, done
    if stream == "stdout":
        assert b"standard output: No space left" in done.stderr


def test_ou_reader_that_left():
    """A closed pipe is no error of ours: the program gets SIGPIPE, as without coto."""
    done = subprocess.run(["sh", "-c", f"{COTO} run -- sh -c 'yes; exit $?' | head -1; true"], timeout=20,
                          env=environment(), capture_output=True, stdin=subprocess.DEVNULL)
    assert (done.stdout, done.stderr) == (b"y\n", b"")


def test_few_descriptors_are_told():
    done = start("--", "true", before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    # the words of musl, and of glibc in sanitizer builds
    told = b"No file descriptors" in done.stderr or b"Too many open files" in done.stderr
    assert done.returncode in (70, 71, 75) and told, done
    fine = start("--", "true", before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert fine.returncode == 0, fine


def test_an_init_that_cannot_start_is_told_at_once():
    """Whatever coto was about to send when it died: its last words are read, not waited for."""
    for _ in range(200):
        done = start("--", "true", before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
        assert done.returncode in (70, 71, 75) and done.stderr, done


def test_no_files_at_all_fails_closed():
    def spoil():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    done = start("--", "echo", "ran", before=spoil)
    assert done.returncode >= 64 and b"ran" not in done.stdout and done.stderr, done


def test_copy_that_never_ends():
    """A file whose read waits for ever (to others than root it is closed anyway)."""
    with subprocess.Popen([COTO, "run", "--copy", "/proc/kmsg:/workspace/x", "--", "true"], env=environment(),
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == 66
