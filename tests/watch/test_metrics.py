"""Figures for Prometheus: read back by its own parser, and compared with what was recorded."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.records.progressed import progress
from tests.watch.serving import ask, serving

from spillway.clock import ManualClock
from spillway.records.batches import BatchDone
from spillway.records.rundir import RunDirectory
from spillway.records.times import Work, in_one_process
from spillway.watch.looking import Looking
from spillway.watch.metrics import Metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset({"run": "words", **labels}.items())]


def begun(path: Path) -> RunDirectory:
    directory = RunDirectory(path, graph="words", clock=ManualClock(now_s=1e9))
    directory.add(
        [
            progress(
                batch=batch,
                shard=shard,
                tuples=10,
                divergence=3.0,
                threshold=4.0 + shard,
                backup=batch == 0,
                backup_bytes=100 * (batch == 0),
                state_bytes=7,
                failures=int(shard == 1),
                recovered=batch == 1 and shard == 1,
            )
            for batch in range(3)
            for shard in range(2)
        ]
    )
    directory.add_batches([BatchDone(batch=batch, tuples=50, time_s=1e9 + batch) for batch in range(3)])
    directory.add_times([in_one_process(2, {Work.SAVING: 0.25})])
    return directory


def test_they_are_what_was_recorded(tmp_path: Path) -> None:
    directory = begun(tmp_path / "run")
    with serving(tmp_path / "run", clock=ManualClock(now_s=1e9 + 3)) as server:
        status, text, headers = ask(server, "/metrics")
    directory.close("finished")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(text)
    assert value(found, "spillway_up") == 1
    assert (
        value(found, "spillway_state", state="recovered") == 1 and value(found, "spillway_state", state="running") == 0
    )
    assert value(found, "spillway_batches_total") == 3 and value(found, "spillway_read_tuples_total") == 150
    assert value(found, "spillway_last_batch_timestamp_seconds") == 1e9 + 2
    assert value(found, "spillway_batch_seconds", part="saving") == 0.25
    assert value(found, "spillway_tuples_total", operator="count") == 60
    assert value(found, "spillway_backups_total", operator="count") == 2
    assert value(found, "spillway_backup_bytes_total", operator="count") == 200
    assert value(found, "spillway_failures", operator="count") == 1
    assert value(found, "spillway_recoveries_total", operator="count") == 1
    assert value(found, "spillway_divergence_of_threshold", operator="count") == 0.75
    assert value(found, "spillway_shard_threshold", operator="count", shard="1", host="") == 5.0


def test_totals_do_not_go_down_when_the_oldest_records_go(tmp_path: Path) -> None:
    clock = ManualClock(now_s=1e9)
    directory = begun(tmp_path / "run")
    directory.close("finished")
    looking, metrics = Looking(tmp_path / "run", clock=clock), Metrics(clock.now_s)
    before = samples(metrics.text(looking.look())[1].decode())
    assert samples(metrics.text(looking.look())[1].decode()) == before  # asked again, nothing is counted twice
    for folder in ("progress", "batches"):
        for part in (tmp_path / "run" / folder).glob("part-*"):
            part.unlink()
    later = RunDirectory(tmp_path / "run", graph="words")
    later.add([progress(batch=3, tuples=1)])
    later.add_batches([BatchDone(batch=3, tuples=5, time_s=1e9 + 4)])
    later.close("finished")
    clock.advance(60.0)
    after = samples(metrics.text(looking.look())[1].decode())
    assert value(after, "spillway_tuples_total", operator="count") == 61
    assert value(after, "spillway_read_tuples_total") == 155


def test_without_the_package_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    begun(tmp_path / "run").close("finished")
    with serving(tmp_path / "run", metrics=False) as server:
        status, text, _ = ask(server, "/metrics")
    assert status == 501 and "pip install 'spillway[metrics]'" in text
