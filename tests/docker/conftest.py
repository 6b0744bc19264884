import pytest

import engine
from cli.helpers import ROOT


def pytest_ignore_collect(collection_path):
    """An engine needs root; what an ordinary user meets is in test_without.py."""
    return True if not ROOT and collection_path.name in ("test_compose.py", "test_docker.py", "test_ends.py") else None


@pytest.fixture(scope="package")
def docker():
    """The session's engine. Nothing of coto's is left in it after a test."""
    yield engine.engine()
    engine.close()


@pytest.fixture(autouse=True)
def nothing_left(request):
    yield
    if "docker" in request.fixturenames:
        left = request.getfixturevalue("docker").containers()
        assert left == [], left
