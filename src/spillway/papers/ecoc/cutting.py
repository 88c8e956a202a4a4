"""The stream processes of seed 003 cut into jobs, one for each operator, protected as a setting says.

Theory. In the seed every operator runs on a host of its own (5.4); a job is our word for that. A sensor's job reads the
input, as a sensor does; jobs are joined by stream logs, and those are the data streams between hosts. Input comes in
batches of ``per_batch`` elements of each sensor, and a batch is the grain of everything here: an interval of c elements
is the number of batches in which an operator gets so many, at least one. That is c / per_batch for a sensor and half of
it behind a join, which gets the elements of both.

Settings (5.1): *unsafe* protects nothing. *Uncoordinated* draws the next checkpoint of each operator between c/2 and
3c/2, which is a jitter of one half. *Coordinated* and *extended* let the sensors alone schedule, and all others are
asked: their own interval is that of the sensors, by which they would act only after twice that without a request.
Nothing keeps the clocks of the seed's two sensors together, while ours count the same batches: with the same
interval they would ask in the same batch every time, and a join would never get two requests one after the other, which
is what extended ECOC is about. So sensors have a jitter of a tenth, or of one batch where that is more: their schedules
drift apart as free clocks do.
"""

from dataclasses import dataclass

from spillway.apps.vitals import readings_apart
from spillway.given import check_whole
from spillway.graph.feeds import Generator
from spillway.graph.graph import Graph
from spillway.graph.nodes import Source
from spillway.graph.protections import Coordinated, Nothing, Protection, Uncoordinated
from spillway.graph.sinks import Sink
from spillway.papers.ecoc.evaluation import Process, Setting

DRIFT = 0.1
"""The jitter of sensors whose checkpoints nobody asks for, as a share of their interval."""

_UNCOORDINATED = 0.5  # c/2 to 3c/2 (5.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """What the sensors of a process put out: so many elements each, so many in a batch."""

    count: int
    per_batch: int
    seed: int

    def __post_init__(self) -> None:
        check_whole("elements", self.count, least=1)
        check_whole("elements per batch", self.per_batch, least=1)

    @property
    def batches(self) -> int:
        return -(-self.count // self.per_batch)

    def feed(self, process: Process) -> Generator:
        """The input of all sensors of a process together."""
        sensors = len(sensors_of(process))
        return process.app.generator(
            seed=self.seed,
            tuples=self.count * sensors,
            tuples_per_batch=self.per_batch * sensors,
            pieces_per_batch=1,
        )


def whole(process: Process, elements: Elements, sink: Sink) -> Graph:
    """A process as one graph without jobs, which nothing protects: what it puts out undisturbed is the ideal."""
    return process.app.build(elements.feed(process), protect=Nothing(), shards=1, sink=sink, **process.options)


def cut(process: Process, elements: Elements, sink: Sink, *, setting: Setting, interval: int) -> Graph:
    """A process with a job for each of its operators; the interval means nothing to the unsafe setting."""
    feed = elements.feed(process)
    sensors = sensors_of(process)
    data = readings_apart(feed) if len(sensors) > 1 else feed
    unsafe = Nothing() if setting == "unsafe" else None  # a job protects the operators that nothing else does
    graph = process.app.build(data, protect=unsafe, shards=1, sink=sink, **process.options)
    for operator in process.operators:
        read = [edge.stream.node for edge in graph.edges if edge.node == operator]
        sources = [name for name in read if isinstance(graph.nodes[name], Source)]
        protect = protection(
            setting, interval=interval, per_batch=elements.per_batch, joined=() if sources else sensors
        )
        graph.job(operator, [*sources, operator], protect=protect)
    return graph


def protection(setting: Setting, *, interval: int, per_batch: int, joined: tuple[str, ...]) -> Protection | None:
    """How a setting protects a job that gets the elements of these sensors, or is one (and joins none)."""
    of_sensor = max(1, round(interval / per_batch))
    match setting:
        case "unsafe":
            return None
        case "uncoordinated":
            batches = max(1, round(interval / per_batch / max(1, len(joined))))
            return Uncoordinated(batches=batches, jitter=_UNCOORDINATED)
        case "coordinated" | "extended":
            jitter = 0.0 if joined else _drift(of_sensor)
            return Coordinated(batches=of_sensor, jitter=jitter, extended=setting == "extended")


def _drift(batches: int) -> float:
    """At least a batch either way, as far as an interval has any to spare."""
    return max(DRIFT, 1 / batches) if batches > 1 else 0.0


def sensors_of(process: Process) -> tuple[str, ...]:
    """The operators that schedule checkpoints when coordinated."""
    return tuple(operator for operator in process.operators if "Sensor" in operator)
