"""Programs of strangers leave as little behind as our own; what could not be had is said."""
from cli.conftest import leftovers, pytest_sessionstart  # noqa: F401: pytest finds them by name

from . import humaneval, programs


def pytest_terminal_summary(terminalreporter):
    for what in filter(None, [humaneval.ABSENT, *programs.ABSENT]):
        terminalreporter.write_line(f"not run: {what}")
