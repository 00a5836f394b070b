import pytest


@pytest.fixture
def write(tmp_path):
    """Write text or bytes to a file of this name and return its path."""

    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
