"""Simulate a net until every measure is known well enough.

Every replication has a random stream of its own, named by the seed and its number, and replications are put together
in the order of their numbers. How they were split over processes or machines therefore leaves no trace: the same seed
gives the same bits.

>>> from spillway.san import Exponential, Net, TimeAverage
>>> net = Net("queue")
>>> queue = net.place("queue")
>>> arrive = net.timed("arrive", Exponential(0.5), outputs=[queue])
>>> serve = net.timed("serve", Exponential(1.0), inputs=[queue])
>>> result = simulate(net, [TimeAverage("length", queue, start=100, end=2000)], seed=1)
>>> result["length"].contains(0.5 / (1 - 0.5))
True
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from spillway.errors import ModelError
from spillway.parallel.pool import Pool, ThisProcess
from spillway.san import firing
from spillway.san.checks import check, refusal
from spillway.san.flat import EVENTS_MAX, Flat, flatten
from spillway.san.intervals import Estimate, Precision, estimate
from spillway.san.kernel import replication
from spillway.san.net import Net
from spillway.san.rewards import Measure
from spillway.san.tables import workspace
from spillway.seeds import generator

BLOCK_REPLICATIONS_MAX = 25
DEFAULT_PRECISION = Precision()


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some replications in a row, to be run as one task."""

    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of a block."""

    samples: Any  # float64 (replications, measures)
    tally: Any  # int64 (TALLY_COLUMNS,): completions, skipped clock completions, jumps


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What a simulation found."""

    net: str
    seed: int
    estimates: dict[str, Estimate]
    samples: Any = field(repr=False)  # float64 (replications, measures), in the order of `estimates`
    precise: bool  # whether every measure is as precise as asked
    events: int  # completions simulated
    skipped: int  # clock completions that fast-forward skipped
    jumps: int

    def __getitem__(self, measure: str) -> Estimate:
        return self.estimates[measure]

    @property
    def replications(self) -> int:
        return len(self.samples)


Progress = Callable[[int, dict[str, Estimate]], None]
"""Called after every round with the replications so far and what they say."""


def simulate(
    net: Net,
    measures: Sequence[Measure],
    *,
    seed: int,
    precision: Precision = DEFAULT_PRECISION,
    pool: Pool | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
    events_max: int = EVENTS_MAX,
) -> Simulation:
    """Replicate the net until every measure is within the precision, or the replications run out.

    Without `fast_forward` every event is simulated, also where the net says what may be skipped.
    """
    check(net)
    flat = flatten(net, measures, fast_forward=fast_forward, events_max=events_max)
    chosen = pool if pool is not None else ThisProcess()
    run = partial(run_block, flat, seed)
    outcomes: list[Outcome] = []
    done, wanted = 0, precision.replications_min
    while True:
        outcomes += chosen.ordered(run, _blocks(done, wanted))
        done = wanted
        samples = np.concatenate([outcome.samples for outcome in outcomes])
        estimates = {name: estimate(name, samples[:, i], level=precision.level) for i, name in enumerate(flat.measures)}
        if progress is not None:
            progress(done, estimates)
        precise = all(each.within(precision) for each in estimates.values())
        if precise or done >= precision.replications_max:
            break
        wanted = min(done + precision.replications_round, precision.replications_max)
    events, skipped, jumps = np.sum([outcome.tally for outcome in outcomes], axis=0).tolist()
    return Simulation(
        net=net.name,
        seed=seed,
        estimates=estimates,
        samples=samples,
        precise=precise,
        events=events,
        skipped=skipped,
        jumps=jumps,
    )


def run_block(flat: Flat, seed: int, block: Block) -> Outcome:
    """Run some replications, one after the other."""
    samples = np.zeros((block.count, len(flat.measures)))
    tally = np.zeros(firing.TALLY_COLUMNS, np.int64)
    trouble = np.zeros(firing.TROUBLE_COLUMNS)
    untraced = np.zeros(0), np.zeros(0, np.int64)
    for i in range(block.count):
        state = generator(seed, "model", block.first + i).integers(0, 2**64, 4, dtype=np.uint64)
        marking = flat.tables.marking.copy()
        work = workspace(flat.tables)
        status = replication(flat.tables, work, marking, state, samples[i], trouble, tally, *untraced)
        if status != firing.DONE:
            error = refusal(flat, status, trouble, marking)
            error.add_note(f"replication {block.first + i} of seed {seed}")
            raise error
    samples /= np.array(flat.lengths)
    for i, name in enumerate(flat.measures):
        if not np.isfinite(samples[:, i]).all():
            raise ModelError(f"Net {flat.name!r}: measure {name!r} came to no finite number; does it divide by 0?")
    return Outcome(samples=samples, tally=tally)


def _blocks(first: int, end: int) -> list[Block]:
    """Replications first to end - 1, in blocks small enough to keep several processes busy to the last."""
    size = min(BLOCK_REPLICATIONS_MAX, max(1, (end - first) // 16))
    return [Block(first=start, count=min(size, end - start)) for start in range(first, end, size)]
