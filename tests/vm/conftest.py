"""Tests that need this kernel: they run in the machine only (make test-vm)."""
import pytest

from cli.conftest import leftovers, pytest_sessionstart  # noqa: F401: pytest finds them by name
from escape.harness import Box


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)
