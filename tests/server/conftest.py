import pytest

from .helpers import Server


@pytest.fixture(scope="module")
def server():
    """One with default limits, for tests that leave it as it was."""
    with Server() as it:
        yield it
