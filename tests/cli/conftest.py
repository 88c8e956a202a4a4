"""A place for state of a test's own: no command under test may see what this machine keeps."""

import tempfile
from pathlib import Path

import pytest

from spillway.cli import clean, doctor, kept
from spillway.state import folders


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where state lies by default, and temporary files beside it."""
    place = tmp_path / "root"
    place.mkdir()
    for module in (folders, clean, doctor, kept):
        monkeypatch.setattr(module, "default_root", lambda: place)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return place
