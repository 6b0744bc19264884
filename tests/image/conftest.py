import pytest

from .helpers import Store, busybox_tree


@pytest.fixture
def store(tmp_path):
    """An empty store; whatever a test did to it, no draft stays."""
    one = Store(tmp_path / "images")
    yield one
    assert one.drafts() == []


@pytest.fixture
def root(tmp_path):
    """A root file system with busybox in it."""
    return busybox_tree(tmp_path / "root")
