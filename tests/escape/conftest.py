"""Attacks leave as little behind as anything else."""
import pytest

import engine
from cli.conftest import leftovers, pytest_sessionstart  # noqa: F401: pytest finds them by name
from levels import here
from .evidence import untestable


@pytest.fixture(scope="session", autouse=True)
def prepared():
    """What the level needs is there before anybody looks at what a test leaves behind."""
    if here():
        here().prepare()
    yield
    engine.close()


def pytest_terminal_summary(terminalreporter):
    """What this situation cannot show is named, never dropped."""
    for name, part, reason in untestable:
        terminalreporter.write_line(f"untestable: {name} {part}: {reason}")
