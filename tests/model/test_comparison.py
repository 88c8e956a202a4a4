"""Every protection of the product is modelled, found from its declaration, and compared."""

from argparse import ArgumentTypeError
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.model.simulating import chain, runs

from spillway.backup.policies import protections
from spillway.cli.model_output import print_points
from spillway.cli.protection import parse_modelled
from spillway.graph.protections import (
    Approximate,
    Checkpoint,
    Coordinated,
    Exact,
    Nothing,
    Protection,
    Uncoordinated,
    UpstreamBackup,
)
from spillway.graph.replicas import Group, Replicate
from spillway.model import (
    Around,
    BoundedState,
    CheckpointState,
    ExactState,
    Faults,
    FullReplication,
    HighAvailabilityGroups,
    KeptItems,
    NoProtection,
    RewindingJobs,
    Technique,
    technique_of,
)
from spillway.model.comparison import comparison, everything, techniques
from spillway.model.protections import modelled
from spillway.model.simulating import Result, run_settings
from spillway.records.campaign import read_manifest
from spillway.records.model import MEASURES, POINTS_SCHEMA, ModelRecords
from spillway.report.model_page import model_page
from spillway.san import ModelError

AROUND = Around(flow=chain(), batch_s=0.5, takeover_s=0.25, catch_up=7.0)
BETWEEN = (("filter", "aggregate"),)


@pytest.mark.parametrize(
    ("protection", "technique"),
    [
        (Nothing(), NoProtection()),
        (Checkpoint(every=timedelta(seconds=30)), CheckpointState(age_s=15.0)),
        (Checkpoint(every=500), CheckpointState(age_tuples=250)),
        (Approximate(theta=90.0), BoundedState(theta_tuples=90.0, catch_up=7.0)),
        (Exact(), ExactState(batch_s=0.5, catch_up=7.0)),
        (UpstreamBackup(every=70), KeptItems(every_tuples=70, catch_up=7.0)),
        (
            Uncoordinated(every=400),
            RewindingJobs(every_s=4.0, coordinated=False, batch_s=0.5, catch_up=7.0),
        ),
        (Coordinated(batches=10), RewindingJobs(every_s=5.0, batch_s=0.5, catch_up=7.0)),
        (
            Group(failover="free running"),
            HighAvailabilityGroups(groups=BETWEEN, failover_s=1.25, catch_up=7.0),
        ),
        (
            Group(replicas=3, detection=timedelta(seconds=2)),
            HighAvailabilityGroups(groups=BETWEEN, replicas=3, failover_s=2.25, by_position=True, catch_up=7.0),
        ),
        (Replicate(), FullReplication()),
    ],
)
def test_a_technique_is_found_from_the_declaration(protection: object, technique: Technique) -> None:
    assert technique_of(protection, AROUND) == technique


def test_every_protection_of_the_product_is_modelled_and_compared() -> None:
    # Other tests of the same process declare protections of their own.
    own = {kind for kind in protections() if kind.__module__.startswith("spillway.")}
    assert set(modelled()) >= {*own, Group, Replicate}
    assert {type(each) for each in everything(chain())} == set(modelled())


@dataclass(frozen=True, slots=True)
class Hourly(Protection):
    """A protection that nobody models."""


def test_a_protection_that_nobody_models_is_refused_until_it_says_how() -> None:
    with pytest.raises(ModelError, match=r"(?s)Hourly.*Nothing.*Replicate.*register"):
        technique_of(Hourly(), AROUND)


def test_items_that_a_receiver_may_lose_are_refused() -> None:
    with pytest.raises(ModelError, match="items"):
        technique_of(Approximate(theta=1.0, items=5.0), AROUND)


def test_groups_are_jobs_where_jobs_are_what_is_protected() -> None:
    around = Around(flow=chain(), groups=(("source", "filter"), ("aggregate",)))
    found = technique_of(Coordinated(batches=3), around)
    assert isinstance(found, RewindingJobs)
    assert found.jobs == around.groups


def test_two_of_a_kind_are_told_apart_by_their_settings() -> None:
    twice = [Checkpoint(every=timedelta(seconds=s)) for s in (2, 60)]
    assert list(techniques(AROUND, [*twice, Exact()])) == ["Checkpoint(every 2 s)", "Checkpoint(every 60 s)", "exact"]


def test_a_flow_of_nothing_but_ends_has_no_groups() -> None:
    flow = chain()
    ends = replace(flow, operators=(flow.operators[0], flow.operators[-1]), streams=(("source", "out", "sink", "in"),))
    with pytest.raises(ModelError, match="between"):
        technique_of(Group(), Around(flow=ends))


@pytest.mark.parametrize(
    ("word", "declared"),
    [
        ("group", Group()),
        ("group:replicas=3,detection=0.5s,failover=free", Group(3, timedelta(seconds=0.5), "free running")),
        ("replicate", Replicate()),
        ("coordinated:batches=10", Coordinated(batches=10)),
        ("approximate:theta=1e5", Approximate(theta=1e5)),
    ],
)
def test_protections_of_jobs_are_words_too(word: str, declared: object) -> None:
    assert parse_modelled(word) == declared


@pytest.mark.parametrize(
    "word", ["group:failover=never", "group:detection=5", "group:replicas=1", "hourly", "upstream"]
)
def test_words_that_make_no_sense_are_refused(word: str) -> None:
    with pytest.raises(ArgumentTypeError, match=word.partition(":")[0]):
        parse_modelled(word)


def result() -> Result:
    chosen = techniques(Around(flow=chain()), [Exact(), Group()])
    faults = Faults(crash_once={"filter": 20.0})
    return run_settings("compare", comparison(chain(), chosen, faults, horizon_s=60.0), seed=1, precision=runs(2))


def records(found: Result) -> ModelRecords:
    return ModelRecords(modelled="chain", settings={}, points=found.table(), statements=(), published=(), about={})


def test_what_is_zero_everywhere_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = result()
    print_points(found)
    printed = capsys.readouterr().out
    sentence = "Under all of these there was no tainted tuple"
    assert sentence in printed
    assert "tainted ┃" not in printed
    assert "delayed" in printed
    assert "no tuple that had to wait" not in printed
    records(found).write(tmp_path)
    page = model_page(tmp_path, read_manifest(tmp_path))
    assert sentence in page
    assert "share of the output" not in page  # the chart of tainted tuples
    assert "<th>tainted" not in page
    assert page.count("<svg") == 3  # not available, delayed, processors


def test_records_of_before_are_read_as_nothing_delayed(tmp_path: Path) -> None:
    records(result()).write(tmp_path)
    points = pq.read_table(tmp_path / "points.parquet")
    added = [name for name in points.column_names if name.startswith(("delayed", "within_bound"))]
    assert len(added) == 4
    pq.write_table(points.drop_columns(added), tmp_path / "points.parquet")
    read = ModelRecords.read(tmp_path, read_manifest(tmp_path)).points
    assert read.schema == POINTS_SCHEMA
    assert read["delayed"].to_pylist() == [0.0] * 3
    assert all(isinstance(read[name], pa.ChunkedArray) for name in MEASURES)
    assert "Tainted" not in model_page(tmp_path, read_manifest(tmp_path))
