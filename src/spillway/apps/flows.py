"""Heavy hitters: pairs of hosts that sent phi bytes or more (seed 002, experiment 3 and appendix A.1).

Guarantee, with U the bytes of all flows of a shard and T(x) those of flow x: every flow with T(x) >= phi is reported,
whatever fails, as long as the sketch is protected by ``Approximate`` or ``Exact``; a flow with

    T(x) < phi - 2 U / width - theta

is reported with probability at most 2^-rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.apps.app import App, Option
from spillway.apps.packets import OPTIONS, generate_packets, read_packets
from spillway.graph.feeds import Feed
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.sketch import CountMin
from spillway.operators.stateless import Where, field

KEY = ("src", "dst")


def build(data: Any, *, protect: Protection | None, shards: int, sink: Sink, phi: int, rows: int, width: int) -> Graph:
    """packets -> bytes per flow, estimated -> those of phi or more -> out."""
    graph = Graph("flows", shards=shards)
    packets = graph.source("packets", data)
    sketch = CountMin("sketch", key=KEY, value="bytes", rows=rows, width=width, metric="max", protect=protect)
    heavy = graph.add(Where("heavy", field("bytes") >= phi), graph.add(sketch, packets))
    graph.sink("out", heavy, sink)
    return graph


APP = App(
    name="flows",
    description="pairs of hosts that sent phi bytes or more",
    graph=build,
    generated=generate_packets,
    read=read_packets,
    options=(
        Option(name="phi", default=10_000_000, meaning="bytes from which on a flow is heavy", least=1),
        Option(name="rows", default=4, meaning="rows of the sketch", least=1, most=64),
        Option(name="width", default=8192, meaning="counters in each row of the sketch", least=1, most=2**30),
    ),
    generator_options=OPTIONS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """How well heavy flows were found."""

    actual: int  # flows of phi bytes or more
    reported: int  # flows reported, each once
    precision: float  # part of the reported that are actual; 1 if none is reported
    recall: float  # part of the actual that are reported; 1 if there are none
    too_low_bytes_max: int  # the most that a last reported estimate is below the truth; 0 if none is
    too_high_bytes_max: int  # the most that one is above


def exact_bytes(feed: Feed, *, pieces: int | None = None) -> pa.Table:
    """The true bytes of every flow in the first ``pieces`` of a feed (all of them by default): src, dst, bytes."""
    total: pa.Table | None = None
    for piece in range(feed.pieces if pieces is None else pieces):
        batch = pa.Table.from_batches([feed.read(piece)]).select([*KEY, "bytes"])
        total = _sum(batch if total is None else pa.concat_tables([total, _sum(batch)]))
    return feed.schema.empty_table().select([*KEY, "bytes"]) if total is None else total


def score(reported: pa.Table, exact: pa.Table, *, phi: int) -> Detection:
    """What the application put out, batch after batch, against the truth of the same input."""
    latest = reported.group_by(list(KEY), use_threads=False).aggregate([("bytes", "last")])
    both = exact.join(latest, list(KEY), join_type="full outer", use_threads=False)
    true, estimates = _bytes(both["bytes"], missing=0), _bytes(both["bytes_last"], missing=-1)
    is_actual, is_reported = true >= phi, estimates >= 0
    found = int((is_actual & is_reported).sum())
    actual_count, reported_count = int(is_actual.sum()), int(is_reported.sum())
    errors = (estimates - true)[is_reported]
    return Detection(
        actual=actual_count,
        reported=reported_count,
        precision=found / reported_count if reported_count else 1.0,
        recall=found / actual_count if actual_count else 1.0,
        too_low_bytes_max=max(0, int((-errors).max(initial=0))),
        too_high_bytes_max=max(0, int(errors.max(initial=0))),
    )


def _sum(table: pa.Table) -> pa.Table:
    summed = table.group_by(list(KEY), use_threads=False).aggregate([("bytes", "sum")])
    return summed.rename_columns([*KEY, "bytes"])


def _bytes(column: pa.ChunkedArray, *, missing: int) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = column.fill_null(missing).to_numpy()
    return values
