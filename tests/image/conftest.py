import os

import pytest

from .helpers import Store, busybox_tree


def root_ran_before():
    """tests/run has a folder for each situation beside the evidence."""
    return os.environ.get("COTO_TEST_SITUATION") == "user" and os.path.isdir(
        os.path.join(os.environ.get("COTO_TEST_EVIDENCE", "/nonexistent"), "../root"))


# Texts of the tree are the same whoever reads them: once is enough.
collect_ignore = ["test_recipes.py", "test_register.py"] if root_ran_before() else []


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
