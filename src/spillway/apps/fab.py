"""A yield model built as wafers come (FAB of seed 004, section 5.1): sensors of a line, measurements, predictions.

    Line -+-> Readings -> Sensors -+-> Join -> SameWafer -> Model -> Predictions -> out
          +-> Measurements --------+

What sensors read of a wafer waits in a window until the wafer is measured; the pair is predicted by a model of all that
came before, and then learnt from. Losing the model's memory costs what it has learnt, losing the join's the wafers that
wait. The seed's application has 79 operators and two models of which nothing more is told; this one has the part that
the experiment is about, an operator that builds a model incrementally, and what it needs around it.
"""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import App, Option
from spillway.apps.wafers import LAG, MEASUREMENT, OPTIONS, PLACES, READING, SENSORS, generate_wafers, read_wafers
from spillway.errors import InputError
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.least_squares import LeastSquares
from spillway.operators.stateless import Apply, Where, field
from spillway.operators.window_join import WindowJoin

PREDICTIONS = pa.schema(
    [
        SEQ_FIELD,
        pa.field("wafer", pa.int64(), nullable=False),
        pa.field("predicted", pa.float64(), nullable=False),
        pa.field("actual", pa.float64(), nullable=False),
        pa.field("error", pa.float64(), nullable=False),
    ]
)


def build(
    data: Any,
    *,
    protect: Protection | None,
    shards: int,
    sink: Sink,
    sensors: int,
    forgetting: float,
    ridge: float,
    every: int,
) -> Graph:
    """Join and model are protected alike; the join is divided by place, the model is one."""
    graph = Graph("fab", shards=shards)
    line = graph.source("Line", data)
    names = [f"sensor_{number}" for number in range(sensors)]
    readings = graph.add(Where("Readings", field("kind") == READING), line)
    spread = graph.add(Apply("Sensors", partial(by_sensor, names=tuple(names)), _readings(names)), readings)
    measurements = graph.add(Where("Measurements", field("kind") == MEASUREMENT), line)
    join = WindowJoin(
        "Join",
        key="place",
        left=["wafer", *names],
        right=["wafer", "yield"],
        size=1,
        protect=protect,
    )
    # A reading also meets the last measurement of its place, which is another wafer's.
    same = Where("SameWafer", field("left_wafer") == field("right_wafer"))
    model = LeastSquares(
        "Model",
        features=[f"left_{name}" for name in names],
        target="right_yield",
        keep=["left_wafer"],
        forgetting=forgetting,
        ridge=ridge,
        every=every,
        protect=protect,
    )
    pairs = graph.add(same, graph.add(join, spread, measurements))
    graph.sink("out", graph.add(Apply("Predictions", predictions, PREDICTIONS), graph.add(model, pairs)), sink)
    return graph


def _readings(names: list[str]) -> pa.Schema:
    kept = [pa.field(name, pa.int64(), nullable=False) for name in ("wafer", "place")]
    return pa.schema([SEQ_FIELD, *kept, *(pa.field(name, pa.float64()) for name in names)])


def by_sensor(readings: pa.RecordBatch, *, names: tuple[str, ...]) -> pa.RecordBatch:
    """A column for each sensor; a value that is missing is NaN, which a window can hold."""
    lists = readings["values"]
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    if (lengths < len(names)).any():
        first = int(np.argmax(lengths < len(names)))
        raise InputError(
            f"App 'fab': a reading wants values of {len(names)} sensors; that of seq {readings[SEQ][first].as_py()} "
            f"has {lengths[first]}. Set sensors to what there are."
        )
    values = pc.fill_null(lists.flatten(), float("nan")).to_numpy(zero_copy_only=False)
    # Readings may have more values than are used, and not all as many: where those of each begin is summed up.
    firsts = np.cumsum(lengths) - lengths
    columns = [pa.array(values[firsts + number]) for number in range(len(names))]
    kept = [readings[name] for name in (SEQ, "wafer", "place")]
    return pa.RecordBatch.from_arrays([*kept, *columns], schema=_readings(list(names)))


def predictions(found: pa.RecordBatch) -> pa.RecordBatch:
    """What the model says, under the wafer's number; the error is how far off it is, either way."""
    wafers = found["left_wafer"].cast(pa.int64())
    columns = [found[SEQ], wafers, found["predicted"], found["actual"], pc.abs(found["error"])]
    return pa.RecordBatch.from_arrays(columns, schema=PREDICTIONS)


APP = App(
    name="fab",
    description="a model of wafer yield, learnt from sensors of a line as wafers come",
    graph=build,
    generated=generate_wafers,
    read=read_wafers,
    options=(
        SENSORS,
        Option(name="forgetting", default=0.997, meaning="what a wafer counts less with each next", least=1e-6, most=1),
        Option(name="ridge", default=1.0, meaning="wafers' worth of doubt in every sensor", least=1e-9, most=1e9),
        Option(name="every", default=25, meaning="wafers after which the model is fitted anew", least=1, most=10**6),
    ),
    generator_options=OPTIONS,
    reader_options=(LAG, PLACES),
)
