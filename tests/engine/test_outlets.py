"""Sinks of a kind that nobody knows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import spillway as sw
from spillway.engine.outlets import Outlets
from spillway.errors import GraphError
from spillway.graph import sinks, tables
from spillway.graph.sinks import Sink
from spillway.graph.tables import TableSink
from spillway.spark.running import Run

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False)])


@dataclass(frozen=True, slots=True)
class Pigeon(Sink):
    """Takes no part in any run."""


def build(sink: Sink) -> sw.Graph:
    graph = sw.Graph("sinks")
    feed = sw.Generator(make=lambda piece: pa.RecordBatch.from_pydict({"seq": [piece]}), schema=SCHEMA, pieces=1)
    graph.sink("out", graph.source("in", feed), sink)
    return graph


REFUSAL = r"Sink 'out': nothing is known of what a Pigeon is to be given"


def test_one_that_nobody_knows_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=REFUSAL):
        sw.LocalRun(build(Pigeon()), state=tmp_path / "state")
    with pytest.raises(GraphError, match=REFUSAL):
        Run(
            build(Pigeon()),
            cast(Any, None),  # Spark is not asked
            backups=None,
            state=tmp_path / "state",
            checkpoint=str(tmp_path / "checkpoint"),
            trigger=None,
            directory=None,
            observe=lambda *_: None,
        )
    assert not any(tmp_path.iterdir())


KINDS = [kind for kind in vars(sinks).values() if isinstance(kind, type) and kind.__base__ is Sink]
KINDS += [kind for kind in vars(tables).values() if isinstance(kind, type) and kind.__base__ is TableSink]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_the_product_is_known(kind: type[Sink]) -> None:
    given: dict[type[Sink], tuple[Any, ...]] = {
        sw.Parquet: ("out",),
        sw.ForEachBatch: (print,),
        sinks.Frames: (print,),
        sw.Delta: ("out",),
        sw.Postgres: ("postgresql://localhost/db", "out"),
    }
    Outlets(build(kind(*given.get(kind, ()))).checked())
