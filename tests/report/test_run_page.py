"""The page of a plain run, from a directory written as runs write theirs."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.records.progressed import progress
from tests.report.test_campaign_page import words
from tests.report.test_page import Elements

from spillway.errors import RunError
from spillway.files.log import log_bytes, read_log
from spillway.records import reading, run_records
from spillway.records.events import Event, EventLog, event
from spillway.records.failed_over import FailedOver
from spillway.records.let_go import LetGo
from spillway.records.progress import ShardProgress
from spillway.records.rejoined import Rejoined
from spillway.records.restarted import Restarted
from spillway.records.rundir import RunDirectory
from spillway.records.times import Work, in_one_process
from spillway.report.pages import report_page


def recorded(path: Path, rows: list[ShardProgress]) -> Path:
    directory = RunDirectory(path, graph="<words>", drawing="words\n  -> count", backups="here")
    directory.add(rows)
    directory.close("finished")
    return path


def happened() -> list[Event]:
    """What a replica, which also writes what another group reads, has seen in an hour."""
    active = FailedOver(
        job="match", replica="match-1", epoch=0, before="", silent_s=0.0, lost_tuples=0, time_s=1_700_000_000.0
    )
    over = replace(active, epoch=1, before="match-0", silent_s=1.25, lost_tuples=4_321, time_s=1_700_000_060.0)
    let_go = LetGo(
        job="last", replica="last-0", by="match-1", absent_s=600, full=False, epoch=3, time_s=1_700_000_900.0
    )
    restarted = Restarted(job="match-1", committed=41, why="a worker died", waited_s=0.5, time_s=1_700_001_800.0)
    rejoined = Rejoined(
        job="match",
        replica="match-1",
        start="peer",
        peer="match-0",
        committed=41,
        behind=77,
        let_go=False,
        time_s=1_700_001_801.0,
    )
    return [event(active), event(over), event(let_go), event(restarted, group="match"), event(rejoined)]


def test_what_happened_to_a_replica_is_written_once_and_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run", [progress(batch=0)])
    log = EventLog(path)
    for count in range(1, 6):
        log.write(happened()[:count])  # whoever looks after jobs gives all of them, again and again
    log.close()
    assert reading.read_events(path) == happened()
    said = words(report_page(path))
    assert "This replica took over once, from one that was silent for up to 1.25 s; 4,321 tuples were not sent" in said
    assert "2023-11-14 22:14:20 match-1 took over match-0 1 1.25 4,321" in said
    assert "last-0 was let go match-1 3 600.00" in said and "match-1 rejoined match-0 77" in said
    assert "It failed and was started again once." in said
    assert "Replicas" not in words(report_page(recorded(tmp_path / "calm", [progress(batch=0)])))


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
            loss_max=2500.0 if batch == 7 and shard == 1 else 0.0,
            loss_total_max=math.inf if batch == 7 and shard == 1 else 0.0,
            numbers=12_345 if batch == 6 else 12_000,
            metrics="max",
            failures=int(batch >= 7 and shard == 1),
        )
        for batch in range(10)
        for shard in range(2)
    ]
    html = report_page(recorded(tmp_path / "run", rows))
    said = words(html)
    assert "Run of <words>" in said
    assert "10 batches. Started" in said and ", finished." in said
    assert "count – nothing" not in said and "2 2,000 4 0.2 4.0 kB 1 0 0 B" in said
    assert "count: 3, 0.6" in html  # divergence left after batch 3
    assert "count: 4, 0" in html  # and after a backup
    assert "count 1 0 200 0% now 1 0 B" in said  # the shard by itself: backed up in the last batch
    assert "Memory was lost once, counted by shard." in said
    assert "count 1 7 batch 4 each of 12,345 numbers by at most 2,500; together at most 30,862,500 0" in said
    assert Elements(html).count("svg") == 2


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"loss_max": 0.0, "metrics": "max"}, "nothing"),
        ({"loss_max": math.inf, "metrics": "max"}, "nothing bounds it"),
        ({"loss_max": 2500.0, "loss_total_max": 2500.0, "metrics": "l1"}, "2,500 in total"),
        ({"loss_max": 40.0, "loss_total_max": 40.0, "metrics": "keys"}, "40 keys"),
        (
            {"loss_max": 2.0, "loss_total_max": math.inf, "metrics": "l2"},
            "2 in l2 over 100 numbers; together at most 20",
        ),
        ({"loss_max": 2.0, "loss_total_max": math.inf, "metrics": "own"}, "2, as the operator measures it"),
        (
            {"loss_max": 2.0, "loss_total_max": 64.0, "metrics": "max", "numbers": 32},
            "each of 32 numbers by at most 2; together at most 64",
        ),
        (
            {"loss_max": 2.0, "loss_total_max": 64.0, "metrics": "max, keys", "numbers": 32},
            "2 in max, keys over 32 numbers; together at most 64",
        ),
    ],
)
def test_what_a_failure_cost_at_most(tmp_path: Path, values: dict[str, object], said: str) -> None:
    rows = [progress(batch=0, numbers=100), progress(batch=1, recovered=True, recovered_from=0, **values)]
    assert f"count 0 1 batch 0 {said} 0" in words(report_page(recorded(tmp_path / "run", rows)))


def test_tuples_that_were_put_aside_are_told_where_there_are_any(tmp_path: Path) -> None:
    told = words(report_page(recorded(tmp_path / "some", [progress(batch=0, late=41), progress(batch=1, ahead=7)])))
    assert "Late tuples Ahead of time" in told and "41 7" in told
    assert "Late tuples" not in words(report_page(recorded(tmp_path / "none", [progress(batch=0)])))


def test_without_the_record_of_the_batch_before_no_total_is_known(tmp_path: Path) -> None:
    lost = progress(batch=5, recovered=True, loss_max=9.0, loss_total_max=math.inf, metrics="max", numbers=3)
    said = words(report_page(recorded(tmp_path / "run", [progress(batch=3), lost])))
    assert "each number by at most 9; how many there were is not recorded" in said


def test_a_run_without_a_bound_draws_none(tmp_path: Path) -> None:
    said = words(report_page(recorded(tmp_path / "run", [progress(batch=0, tuples=5)])))
    assert "How near to the bound" not in said
    assert "What happened" not in said
    assert "counted by shard" not in said


def test_a_run_that_has_said_nothing_yet(tmp_path: Path) -> None:
    assert "No operator with state has reported a batch." in words(report_page(recorded(tmp_path / "run", [])))


def test_many_batches_are_thinned_without_hiding_the_peak(tmp_path: Path) -> None:
    rows = [progress(batch=i, divergence=999.0 if i == 777 else 1.0, threshold=1000.0) for i in range(2000)]
    html = report_page(recorded(tmp_path / "run", rows))
    assert len(html) < 100_000
    assert "0.8" in words(html)  # the axis reaches the peak


def test_older_records_with_fewer_columns_are_read(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run", [progress(batch=0, tuples=5)])
    part = path / "progress" / "part-000000.log"
    older = pa.Table.from_batches(read_log(part).batches).drop_columns(["lost_chunks", "damage"])
    part.write_bytes(log_bytes(older.schema, older.to_batches()))
    assert "these records do not say) 1 5" in words(report_page(path))


def test_records_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run", [progress(batch=0, tuples=5)])
    part = path / "progress" / "part-000000.log"
    part.unlink()
    part.mkdir()
    with pytest.raises(RunError, match="its progress cannot be read"):
        report_page(path)


def test_holes_are_told_by_operator_and_batch(tmp_path: Path) -> None:
    rows = [
        progress(operator=operator, batch=batch, shard=shard)
        for operator in ("first", "second")
        for batch in range(23)
        for shard in range(2)
        if not (operator == "first" and 5 <= batch <= 10)
        and not (operator == "second" and batch == 22)
        and not (operator == "second" and batch == 3 and shard == 1)
    ]
    said = words(report_page(recorded(tmp_path / "run", rows)))
    assert "Of operator 'first', 6 batches lack a record of one shard or of all: batches 5 to 10." in said
    assert "Of operator 'second', 2 batches lack a record of one shard or of all: batches 3, 22." in said


def test_a_page_of_whole_records_says_nothing_of_holes(tmp_path: Path) -> None:
    html = report_page(recorded(tmp_path / "run", [progress(batch=batch) for batch in range(5)]))
    assert "What the records lack" not in words(html)


def test_a_page_says_what_was_run_again_torn_and_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path / "run", [progress(batch=batch, tuples=1) for batch in (4, 5, 6)])
    (path / "progress" / "part-000000.log").open("ab").write(b"half")
    directory = RunDirectory(path, graph="words")
    directory.add([progress(batch=batch, tuples=10) for batch in (6, 7)])
    said = words(report_page(path))
    assert "8 batches. Started" in said and "UTC; running. Drivers before this one, since" in said
    assert ": 1 finished. running" in said
    assert "The records begin with batch 4." in said
    assert "1 record is of batches that were run again; of each batch the last word counts." in said
    assert "part-000000.log: its last 4 bytes are half a record." in said
    assert "these records do not say) 1 22" in said  # tuples: 1 + 1 + 10 + 10
    directory.close("finished")
    monkeypatch.setattr(run_records, "ROWS_MAX", 2)
    assert "The records begin with batch 6. 3 older records are more than a page is drawn from." in words(
        report_page(path)
    )


def test_a_run_that_ended_without_saying_so(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run", graph="words")
    directory.add([progress(batch=0)])
    assert directory._lock is not None
    os.close(directory._lock)  # as the end of its process does
    directory._lock = None
    said = words(report_page(tmp_path / "run"))
    assert "failed Its process is gone without a word." in said and "last heard of" in said


def test_what_is_promised_is_shown_as_the_run_said_it(tmp_path: Path) -> None:
    promises = {
        "operators": [{"operator": "a", "sentences": ["One <thing>.", "Another."]}],
        "sinks": [{"sink": "out", "sentences": []}],
    }
    directory = RunDirectory(tmp_path / "run", graph="words", promises=promises)
    directory.add([progress(batch=0)])
    directory.close("finished")
    said = words(report_page(tmp_path / "run"))
    assert "What is promised" in said and "One <thing>. Another." in said
    assert "sentences" not in said
    assert "What is promised" not in words(report_page(recorded(tmp_path / "older", [progress(batch=0)])))


def test_backups_that_were_made_good_are_told(tmp_path: Path) -> None:
    rows = [progress(batch=batch, damage="all of them were gone" if batch == 3 else "") for batch in range(6)]
    said = words(report_page(recorded(tmp_path / "run", rows)))
    assert "Backups were not what they should be once. Memory was whole" in said and "all of them were gone" in said
    assert "Backups made good" not in words(report_page(recorded(tmp_path / "other", rows[:3])))


def test_the_page_shows_where_the_time_went(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run", graph="words")
    directory.add([progress(batch=batch) for batch in range(1_000)])
    directory.add_times([in_one_process(batch, {Work.SAVING: 0.25, Work.SPARK: 0.75}) for batch in range(1_000)])
    directory.close("finished")
    text = report_page(tmp_path / "run")
    assert "Where the time of a batch goes" in text and "The first 3 are left out" in text
    assert "batch 3 to 19, saving: 250" in text
    assert ">25.0%<" in text and ">75.0%<" in text
