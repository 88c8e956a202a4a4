"""The note of how far backups reach, where its folder fails."""

from pathlib import Path

import pytest

from spillway.backup.reach import FOLDER, NAME, Reach
from spillway.errors import BackupError


def test_a_note_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    assert Reach.beside(str(tmp_path)).of("count", 0).backups == ()
    (tmp_path / FOLDER / NAME).mkdir(parents=True)  # reading it fails, also for root
    with pytest.raises(BackupError, match=r"how far backups reach failed: .*Mend the folder and run again"):
        Reach.beside(str(tmp_path))
