import contextlib

import pytest

from cli.helpers import ROOT

from .helpers import Service

# Sandboxes of an ordinary user have roots and network namespaces of their own.
collect_ignore = [] if ROOT else ["test_networks.py", "test_shared_root.py"]


@pytest.fixture(scope="module")
def service():
    """One for tests that leave it running and well; level high, which not every host has, is test_high.py's."""
    with Service("--high-isolation=none") as it:
        yield it
        assert it.stop() == 0, it.messages


@pytest.fixture
def make_service():
    """Services of a test's own: make_service('--durability=off'), started or not."""
    with contextlib.ExitStack() as stack:
        def make(*flags, start=True):
            it = Service(*flags)
            if start:
                return stack.enter_context(it)
            stack.callback(it.__exit__)
            return it
        yield make
