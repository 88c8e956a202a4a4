"""What happens to the hosts of a cluster while a graph runs there: data, made from a seed.

A history is one to three faults. Each strikes a moment after so many batches are done, which is somewhere in the batch
after them; or at a step of that batch or of the first one after it that comes there, and then it is the host at that
step that is struck. A host that is gone for good is not struck again, and one host always stays.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from numpy.random import Generator

from spillway.backup.keeper import SHARD_STEPS, Step
from spillway.seeds import generator
from spillway.soak.host_graph import SHARDS, SINKS
from spillway.soak.host_holds import Hold

BATCHES = 9
HOSTS_MIN = 3
_FIRST, _LAST = 1, 6  # a fault is struck when so many batches are done, and some are to come
_FAULTS_MAX = 3
_AT_A_STEP = 0.6  # of the faults
_RESCALED = 0.2  # of the histories


class Kind(StrEnum):
    """What can happen."""

    EXECUTOR = "executor killed"
    WIPED = "executor killed and memory lost"
    GONE = "host gone"
    TWO_GONE = "two hosts gone at once"
    DRIVER = "driver killed"
    DRIVER_AND_HOST = "driver and a host killed"
    PAUSED = "host paused"
    DRAINED = "host drained"
    MOVED = "shard moved"
    SOURCE_KILLED = "shard moved, its source killed"
    TARGET_KILLED = "shard moved, its target killed"
    DRIVER_IN_MOVE = "shard moved, the driver killed"


GONE = (Kind.GONE, Kind.TWO_GONE, Kind.DRIVER_AND_HOST)
"""Those after which a host is away."""
QUIET = (Kind.DRAINED, Kind.MOVED)
"""Those in which nothing is lost, and no failure may count."""
MOVES = (Kind.MOVED, Kind.SOURCE_KILLED, Kind.TARGET_KILLED, Kind.DRIVER_IN_MOVE)

_ALONE = (Kind.DRIVER, Kind.MOVED, Kind.DRIVER_IN_MOVE)  # which are about no host
_BATCH_STEPS = (*SHARD_STEPS, Step.PLACED, Step.WRITTEN)
_MOVE_STEPS = (Step.SERVED, Step.FETCHED, Step.HANDED_OVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that happens."""

    kind: Kind
    batch: int  # when so many are done
    after_s: float = 0.0  # and so long after that, or
    step: Step | None = None  # when somebody comes to this step
    operator: str = SINKS[0]
    shard: int = 0  # the one whose step it is, or that is moved
    host: int = 0  # unless it is the one at the step
    other: int = 1  # a second host, if the kind is about two
    back_after: int | None = None  # batches until a host that is gone or paused comes back; None: not while it lasts
    wiped: bool = False  # whether a host that is gone loses its memory
    paused_s: float = 0.0

    @property
    def hold(self) -> Hold | None:
        """Who waits for it."""
        if self.step is None:
            return None
        return Hold(step=self.step, batch=self.batch, operator=self.operator, shard=self.shard)

    def sentence(self) -> str:
        """What people are told.

        >>> Fault(kind=Kind.GONE, batch=3, after_s=0.25, host=1, back_after=2, wiped=True).sentence()
        'host gone (1, memory lost, back after 2 batches), 0.25 s after batch 3'
        """
        hosts = [str(self.host), *([f"and {self.other}"] if self.kind is Kind.TWO_GONE else [])]
        about = [" ".join(hosts)] if self.kind not in _ALONE and self.step not in SHARD_STEPS else []
        about += ["memory lost"] if self.wiped else []
        about += [f"shard {self.shard}"] if self.kind in MOVES else []
        about += [f"for {self.paused_s:.2g} s"] if self.paused_s else []
        if self.back_after is not None:
            about.append(f"back after {self.back_after} batches")
        elif self.kind in GONE:
            about.append("not back")
        said = f" ({', '.join(about)})" if about else ""
        if self.step is None:
            return f"{self.kind}{said}, {self.after_s:.2g} s after batch {self.batch}"
        whose = f" by shard {self.shard} of {self.operator!r}" if self.step in SHARD_STEPS else ""
        return f"{self.kind}{said}, at step {self.step!s}{whose} from batch {self.batch} on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """The run is stopped, and goes on with another number of shards."""

    batch: int  # when so many are done
    shards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that happens in one run."""

    seed: int
    delay_max_s: float
    faults: tuple[Fault, ...]
    rescale: Rescale | None = None

    @property
    def quiet(self) -> bool:
        """Whether nothing in it may cost anything."""
        return all(fault.kind in QUIET for fault in self.faults)

    def sentence(self) -> str:
        told = [f"delays of {self.delay_max_s:g} s allowed", *(fault.sentence() for fault in self.faults)]
        if self.rescale is not None:
            told.append(f"{self.rescale.shards} shards from batch {self.rescale.batch} on")
        return "; ".join(told)


def history(seed: int, *, hosts: int) -> History:
    """The history of a seed on so many hosts.

    >>> history(3, hosts=3) == history(3, hosts=3)
    True
    """
    assert hosts >= HOSTS_MIN, hosts
    draw = generator(seed, "host history")
    count = int(draw.integers(1, _FAULTS_MAX + 1))
    moments = sorted(int(batch) for batch in draw.choice(range(_FIRST, _LAST + 1), size=count, replace=False))
    there = list(range(hosts))
    faults = []
    for batch in moments:
        fault = _fault(draw, batch, there)
        faults.append(fault)
        if fault.kind in GONE and fault.back_after is None:
            there.remove(fault.host)
    # Short: whoever is gone is left. Long: executors, which are started anew, are back in time.
    delay_max_s = float(draw.choice([1.0, 1.0, 15.0]))
    rescale = None
    if draw.random() < _RESCALED:
        rescale = Rescale(batch=int(draw.integers(2, _LAST + 1)), shards=int(draw.choice([1, 2, 4, 5])))
        # One that strikes when the run was stopped strikes while it is divided anew.
        faults = [
            replace(fault, after_s=round(float(draw.uniform(0.0, 6.0)), 3)) if fault.batch == rescale.batch else fault
            for fault in faults
        ]
    return History(seed=seed, delay_max_s=delay_max_s, faults=tuple(faults), rescale=rescale)


def _fault(draw: Generator, batch: int, there: list[int]) -> Fault:
    kinds = [kind for kind in Kind if len(there) >= HOSTS_MIN or kind is not Kind.TWO_GONE]
    kind = kinds[int(draw.integers(len(kinds)))]
    host, other = (int(place) for place in draw.choice(there, size=2, replace=False))
    comes_back = len(there) < HOSTS_MIN or draw.random() < 0.6
    paused = kind is Kind.PAUSED
    for_s = paused and draw.random() < 0.5
    return Fault(
        kind=kind,
        batch=batch,
        after_s=round(float(draw.uniform(0.0, 0.8)), 3),
        step=_step(draw, kind),
        operator=SINKS[int(draw.integers(len(SINKS)))],
        shard=int(draw.integers(SHARDS)),
        host=host,
        other=other,
        back_after=int(draw.integers(0, 3)) if (kind in GONE and comes_back) or (paused and not for_s) else None,
        wiped=kind is Kind.WIPED or (kind in GONE and bool(draw.random() < 0.5)),
        paused_s=round(float(draw.uniform(0.5, 8.0)), 3) if for_s else 0.0,
    )


def _step(draw: Generator, kind: Kind) -> Step | None:
    steps: tuple[Step, ...] = () if kind in QUIET else _MOVE_STEPS if kind in MOVES else _BATCH_STEPS
    at_one = draw.random() < _AT_A_STEP
    return steps[int(draw.integers(len(steps)))] if steps and at_one else None
