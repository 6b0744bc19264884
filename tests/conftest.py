"""Turns, where suites run side by side: tests share the machine, and one marked `alone`, which measures all of it, has it
for itself. tests/run names the place; without one nobody waits."""
import contextlib
import fcntl
import os

import pytest

TURNS = os.environ.get("COTO_TEST_TURNS")


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: no other test of any suite runs meanwhile")


@contextlib.contextmanager
def locked(name, how):
    with open(os.path.join(TURNS, name)) as file:
        fcntl.flock(file, how)
        yield


@pytest.fixture(autouse=True)
def turn(request):
    if not TURNS:
        yield
        return
    how = fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH
    with contextlib.ExitStack() as held:
        with locked("door", fcntl.LOCK_EX):  # who waits for all others lets none of them begin
            held.enter_context(locked("room", how))
        yield
