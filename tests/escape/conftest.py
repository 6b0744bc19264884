"""Attacks leave as little behind as anything else."""
from cli.conftest import leftovers, pytest_sessionstart  # noqa: F401: pytest finds them by name
