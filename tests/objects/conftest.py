import pytest

from tests.objects.server import ObjectServer


@pytest.fixture(autouse=True)
def _needs_obstore():
    pytest.importorskip("obstore", reason="object stores take obstore: pip install 'daskfs[cloud]'")


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A bucket, and an environment that leads there."""
    with ObjectServer() as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("DASKFS_STAGING", str(tmp_path / "staging"))
        yield found
