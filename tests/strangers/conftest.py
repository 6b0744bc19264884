"""Programs of strangers leave as little behind as our own; what could not be had is said."""
import pytest

import engine
from cli.conftest import leftovers, pytest_sessionstart  # noqa: F401: pytest finds them by name
from levels import LEVELS, here

from . import humaneval, programs


@pytest.fixture(scope="session", autouse=True)
def engines():
    """Started before anybody looks at what a test leaves behind."""
    for level in [here()] if here() else LEVELS:
        if level.is_here():
            level.prepare()
    yield
    engine.close()


def pytest_terminal_summary(terminalreporter):
    for what in filter(None, [humaneval.ABSENT, *programs.ABSENT]):
        terminalreporter.write_line(f"not run: {what}")
