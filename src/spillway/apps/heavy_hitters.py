"""Heavy hitters of each window: local sketches, merged when the window ends (seed 002, experiment 3 and appendix A.1).

Guarantee, with U the bytes of all flows of a window and T(x) those of flow x: every flow with T(x) >= phi is reported,
whatever fails, as long as the sketches are protected by ``Approximate`` with theta below phi, or by ``Exact``; a flow
with T(x) < phi - 2 U / width - theta is reported with probability at most 2^-rows.

The generated packets are those of ``packets`` with activity that falls so steeply that about a hundred flows of a
window are heavy, some of them barely: without failures the precision is about 0.99. The seed's theta is 1 % of phi.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.apps.app import App, Option
from spillway.apps.packets import OPTIONS, PACKET_BYTES_MAX, generate_packets, read_packets
from spillway.graph.feeds import SEQ, Feed
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.graph.windows import Hopping
from spillway.operators.hitters import LocalSketch, MergeSketches

KEY = ("src", "dst")


def build(
    data: Any, *, protect: Protection | None, shards: int, sink: Sink, phi: int, window: int, rows: int, width: int
) -> Graph:
    """packets -> a sketch per shard -> at the end of each window, the heavy flows of all -> out."""
    graph = Graph("hitters", shards=shards)
    packets = graph.source("packets", data)
    local = LocalSketch(
        "local",
        key=KEY,
        value="bytes",
        phi=phi,
        shards=shards,
        window=Hopping(count=window),
        rows=rows,
        width=width,
        protect=protect,
        largest=PACKET_BYTES_MAX,
    )
    graph.add(local, packets)
    merge = MergeSketches("merge", key=KEY, value="bytes", phi=phi, rows=rows, width=width)
    heavy = graph.add(merge, graph.output(local, "sketch"), graph.output(local, "candidates"))
    graph.sink("out", heavy, sink)
    return graph


_DEFAULTS = {"heavy": 0, "heavy_share": 0.0, "exponent": 1.1}

APP = App(
    name="hitters",
    description="pairs of hosts that sent phi bytes or more in a window",
    graph=build,
    generated=generate_packets,
    read=read_packets,
    options=(
        Option(name="phi", default=125_000, meaning="bytes in a window from which on a flow is heavy", least=1),
        Option(name="window", default=200_000, meaning="packets in a window", least=1),
        Option(name="rows", default=4, meaning="rows of the sketches", least=1, most=64),
        Option(name="width", default=8192, meaning="counters in each row of a sketch", least=1, most=2**24),
    ),
    generator_options=tuple(
        Option(
            name=option.name,
            default=_DEFAULTS.get(option.name, option.default),
            meaning=option.meaning,
            least=option.least,
            most=option.most,
        )
        for option in OPTIONS
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """How well the heavy flows of all windows were found; a flow counts once for each window in which it is heavy."""

    actual: int  # flows of phi bytes or more
    reported: int
    precision: float  # part of the reported that are actual; 1 if none is reported
    recall: float  # part of the actual that are reported; 1 if there are none
    too_low_bytes_max: int  # the most that an estimate is below the truth; 0 if none is
    too_high_bytes_max: int  # the most that one is above


def exact_bytes(feed: Feed, *, window: int, pieces: int | None = None) -> pa.Table:
    """The true bytes of every flow in every window that has ended within the first ``pieces`` (all by default).

    Columns window, src, dst, bytes. A window has ended when there is a tuple of a later one.
    """
    parts = []
    last = -1
    for piece in range(feed.pieces if pieces is None else pieces):
        batch = feed.read(piece)
        windows = np.asarray(batch[SEQ]) // window
        last = max(last, int(windows.max(initial=-1)))
        table = pa.table([pa.array(windows), *(batch[name] for name in (*KEY, "bytes"))], ["window", *KEY, "bytes"])
        parts.append(_summed(table))
    if not parts:
        columns = [pa.field("window", pa.int64()), *(feed.schema.field(name) for name in (*KEY, "bytes"))]
        return pa.schema(columns).empty_table()
    total = _summed(pa.concat_tables(parts))
    return total.filter(pa.array(total["window"].to_numpy() < last))


def score(reported: pa.Table, exact: pa.Table, *, phi: int) -> Detection:
    """What the application put out against the truth of the same input."""
    keys = ["window", *KEY]
    came = reported.select([*keys, "bytes"]).rename_columns([*keys, "estimate"])
    both = exact.join(came, keys, join_type="full outer", use_threads=False)
    true, estimates = (both[name].fill_null(missing).to_numpy() for name, missing in (("bytes", 0), ("estimate", -1)))
    is_actual, is_reported = true >= phi, estimates >= 0
    found, actual_count, reported_count = (
        int(which.sum()) for which in (is_actual & is_reported, is_actual, is_reported)
    )
    errors = (estimates - true)[is_reported]
    return Detection(
        actual=actual_count,
        reported=reported_count,
        precision=found / reported_count if reported_count else 1.0,
        recall=found / actual_count if actual_count else 1.0,
        too_low_bytes_max=int((-errors).max(initial=0)),
        too_high_bytes_max=int(errors.max(initial=0)),
    )


def _summed(table: pa.Table) -> pa.Table:
    summed = table.group_by(["window", *KEY], use_threads=False).aggregate([("bytes", "sum")])
    return summed.rename_columns(["window", *KEY, "bytes"])
