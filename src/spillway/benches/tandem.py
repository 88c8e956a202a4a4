"""A line of operators with queues between them, back-pressure and crashes: a stream in its plainest form.

Each operator waits for a tuple, processes it, drops it or sends it on when the next queue has room. A crash empties its
queue and loses what it was working on; while it is down its queue fills up, and then the one before it. The net serves
the benchmark and the tests, and shows how a net with a fast-forward is written.
"""

from dataclasses import dataclass, field

from spillway.errors import ModelError
from spillway.given import is_number, is_whole
from spillway.san.distributions import Deterministic, Distribution, Exponential
from spillway.san.expressions import Expression, all_of
from spillway.san.net import Net
from spillway.san.parts import Case
from spillway.san.rewards import Impulses, Measure, TimeAverage

OPERATORS_MAX = 1000
_LEAD_COSTS = 200  # a tuple takes this many processing times to get through an operator with a chance of exp(-200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tandem:
    """The parameters of the line; times in seconds."""

    operators: int = 8
    arrivals: Distribution = field(default_factory=lambda: Deterministic(1 / 450))
    cost_s: float = 1e-5  # mean processing time of a tuple
    kept: float = 0.9  # share of tuples an operator sends on
    room: int = 64  # tuples a queue holds
    crash_rate: float = 1.85e-4
    down_s: float = 3.5  # mean time from a crash to the restart

    def __post_init__(self) -> None:
        if not is_whole(self.operators, least=1, most=OPERATORS_MAX) or not is_whole(self.room, least=1, most=10**6):
            raise ModelError(f"Tandem: at least one operator and room for one tuple are wanted; got {self}.")
        if not is_number(self.kept, least=0, most=1):
            raise ModelError(f"Tandem: a share from 0 to 1 is wanted; got {self.kept}.")

    def net(self) -> Net:
        """The line as a net."""
        net = Net("tandem")
        queues = [net.place(f"queue{i}") for i in range(self.operators)]
        net.timed("arrive", self.arrivals, inputs=[queues[0] < self.room], outputs=[queues[0]])
        calm: list[Expression] = []
        for i, queue in enumerate(queues):
            waiting, up = net.place(f"waiting{i}", 1), net.place(f"up{i}", 1)
            busy, sending = net.place(f"busy{i}"), net.place(f"sending{i}")
            net.instant(f"take{i}", inputs=[queue, waiting, up == 1], outputs=[busy])
            net.timed(
                f"process{i}",
                Exponential(1 / self.cost_s),
                inputs=[busy, up == 1],
                cases=[Case(self.kept, [sending]), Case(1 - self.kept, [waiting])],
            )
            if i + 1 < self.operators:
                net.instant(
                    f"send{i}", inputs=[sending, queues[i + 1] < self.room, up == 1], outputs=[queues[i + 1], waiting]
                )
            else:
                net.instant(f"send{i}", inputs=[sending, up == 1], outputs=[waiting])
            net.timed(
                f"crash{i}",
                Exponential(self.crash_rate),
                inputs=[up],
                outputs=[queue.set(0), busy.set(0), sending.set(0), waiting.set(1)],
            )
            net.timed(f"restart{i}", Exponential(1 / self.down_s), inputs=[up == 0], outputs=[up])
            calm += [queue == 0, waiting == 1, up == 1]
        self._skip(net, all_of(*calm))
        return net

    def _skip(self, net: Net, calm: Expression) -> None:
        """While nothing is under way and all are up, each tuple passes each operator with the same chance."""
        forward = net.fast_forward(when=calm, lead=_LEAD_COSTS * self.cost_s * self.operators)
        arrived = forward.arrivals("arrive")
        forward.completes("arrive", arrived)
        passing = arrived
        for i in range(self.operators):
            forward.completes(f"take{i}", passing)
            passing, dropped = forward.split(passing, self.kept, 1 - self.kept)
            forward.completes(f"process{i}", passing, case=0)
            forward.completes(f"process{i}", dropped, case=1)
            forward.completes(f"send{i}", passing)

    def measures(self, net: Net, end_s: float) -> list[Measure]:
        """Availability, tuples stored, and how many were processed, from 0 to a time."""
        everything_up = all_of(*(net[f"up{i}"] == 1 for i in range(self.operators)))
        return [
            TimeAverage("available", everything_up, end=end_s),
            Impulses("stored", {f"send{self.operators - 1}": 1}, end=end_s),
            Impulses("processed", {f"process{i}": 1 for i in range(self.operators)}, end=end_s),
        ]
