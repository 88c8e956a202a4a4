"""A driver killed in mid-run: the report of the resumed run has no hole, and says what became of the first driver."""

from pathlib import Path

import pytest
from tests.kill.driver import BATCHES
from tests.kill.test_kills import finish, start
from tests.report.test_campaign_page import words

from spillway.records import read_progress
from spillway.report.pages import report_page

pytestmark = [pytest.mark.kill, pytest.mark.spark]


def test_the_records_of_a_killed_driver_are_there(tmp_path: Path) -> None:
    finish(start(tmp_path, "exact", "written", 4, "driver"), killed=True)
    killed = read_progress(tmp_path / "run")
    assert sorted((row.batch, row.shard) for row in killed.rows) == [(b, s) for b in range(5) for s in range(2)]
    assert "5 batches; ended without saying so: its process is gone." in words(report_page(tmp_path / "run"))
    finish(start(tmp_path, "exact"), killed=False)
    whole = read_progress(tmp_path / "run")
    assert sorted((row.batch, row.shard) for row in whole.rows) == [(b, s) for b in range(BATCHES) for s in range(2)]
    assert whole.repeated == 2  # both shards of batch 4, which Spark had not committed
    said = words(report_page(tmp_path / "run"))
    assert "8 batches; ended: finished. Drivers before this one: 1 gone without saying so." in said
    assert "lack a record" not in said
