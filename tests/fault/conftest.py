"""Faults leave as little behind as anything else. A sanitizer's runtime neither
works under ptrace nor survives a failed mmap: those builds have no fault tests."""
from cli.conftest import leftovers, pytest_sessionstart  # noqa: F401: pytest finds them by name
from cli.helpers import has_asan

collect_ignore_glob = ["test_*"] if has_asan() else []
