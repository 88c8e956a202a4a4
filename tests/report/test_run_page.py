"""The page of a plain run, from a directory written as runs write theirs."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.test_campaign_page import words
from tests.report.test_page import Elements

from spillway.errors import RunError
from spillway.records.progress import PROGRESS_SCHEMA, ShardProgress
from spillway.records.rundir import RunDirectory
from spillway.report.pages import report_page


def progress(**values: object) -> ShardProgress:
    nothing = {
        field.name: "" if pa.types.is_string(field.type) else False if pa.types.is_boolean(field.type) else 0
        for field in PROGRESS_SCHEMA
    }
    return ShardProgress(**{**nothing, "operator": "count", **values})  # type: ignore[arg-type]


def recorded(path: Path, rows: list[ShardProgress]) -> Path:
    directory = RunDirectory(path, graph="<words>", drawing="words\n  -> count", backups="here")
    directory.add(rows)
    directory.close("finished")
    return path


def test_a_run_with_a_bound_and_a_failure(tmp_path: Path) -> None:
    rows = [
        progress(
            batch=batch,
            shard=shard,
            tuples=100,
            divergence=40.0 * (batch % 5),
            threshold=200.0,
            backup=batch % 5 == 4,
            backup_bytes=1000 if batch % 5 == 4 else 0,
            recovered=batch == 7 and shard == 1,
            recovered_from=4 if batch == 7 and shard == 1 else 0,
            failures=int(batch >= 7 and shard == 1),
        )
        for batch in range(10)
        for shard in range(2)
    ]
    html = report_page(recorded(tmp_path / "run", rows))
    said = words(html)
    assert "Run of <words>" in said
    assert "10 batches; ended: finished." in said
    assert "count 2 2,000 4 0.2 4,000 1 0 0" in said
    assert "count: 3, 0.6" in html  # divergence left after batch 3
    assert "count: 4, 0" in html  # and after a backup
    assert "Memory was lost 1 times." in said
    assert "count 1 7 batch 4 0" in said
    assert Elements(html).count("svg") == 2


def test_a_run_without_a_bound_draws_none(tmp_path: Path) -> None:
    said = words(report_page(recorded(tmp_path / "run", [progress(batch=0, tuples=5)])))
    assert "How near to the bound" not in said
    assert "Failures" not in said.replace("Failures Chunks", "")


def test_a_run_that_has_said_nothing_yet(tmp_path: Path) -> None:
    assert "No operator with state has reported a batch." in words(report_page(recorded(tmp_path / "run", [])))


def test_many_batches_are_thinned_without_hiding_the_peak(tmp_path: Path) -> None:
    rows = [progress(batch=i, divergence=999.0 if i == 777 else 1.0, threshold=1000.0) for i in range(2000)]
    html = report_page(recorded(tmp_path / "run", rows))
    assert len(html) < 100_000
    assert "0.8" in words(html)  # the axis reaches the peak


def test_older_records_with_fewer_columns_are_read(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run", [progress(batch=0, tuples=5)])
    part = path / "progress" / "part-000000.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["lost_chunks", "damage"]), part)
    assert "count 1 5" in words(report_page(path))


def test_records_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run", [progress(batch=0, tuples=5)])
    (path / "progress" / "part-000000.parquet").write_bytes(b"torn")
    with pytest.raises(RunError, match="its progress cannot be read"):
        report_page(path)
