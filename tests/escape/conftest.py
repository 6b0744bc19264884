"""Attacks leave as little behind as anything else."""
from cli.conftest import leftovers, pytest_sessionstart  # noqa: F401: pytest finds them by name
from .evidence import untestable


def pytest_terminal_summary(terminalreporter):
    """What this situation cannot show is named, never dropped."""
    for name, part, reason in untestable:
        terminalreporter.write_line(f"untestable: {name} {part}: {reason}")
