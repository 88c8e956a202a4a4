"""What happens to the hosts of a cluster while a graph runs there: data, made from a seed.

A history is one to three faults. Each strikes a moment after so many batches are done, which is somewhere in the batch
after them, and the next one comes later. A host that is gone for good is not struck again, and one host always stays.
"""

from dataclasses import dataclass
from enum import StrEnum

from numpy.random import Generator

from spillway.seeds import generator
from spillway.soak.host_graph import SHARDS

BATCHES = 12
HOSTS_MIN = 3
_FIRST, _LAST = 2, 8  # a fault is struck when so many batches are done, and some are to come
_FAULTS_MAX = 3


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


GONE = (Kind.GONE, Kind.TWO_GONE, Kind.DRIVER_AND_HOST)
"""Those after which a host is away."""
QUIET = (Kind.DRAINED, Kind.MOVED)
"""Those in which nothing is lost, and no failure may count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that happens."""

    kind: Kind
    batch: int  # when so many are done
    after_s: float = 0.0  # and so long after that
    host: int = 0
    other: int = 1  # a second host, if the kind is about two
    back_after: int | None = None  # batches until a host that is gone comes back; None: not while the run lasts
    wiped: bool = False  # whether a host that is gone loses its memory
    paused_s: float = 0.0
    shard: int = 0  # of those that are moved

    def sentence(self) -> str:
        """What people are told.

        >>> Fault(kind=Kind.GONE, batch=3, after_s=0.25, host=1, back_after=2, wiped=True).sentence()
        'host gone (1, memory lost, back after 2 batches), 0.25 s after batch 3'
        """
        hosts = [str(self.host), *([f"and {self.other}"] if self.kind is Kind.TWO_GONE else [])]
        about = [" ".join(hosts)] if self.kind not in (Kind.DRIVER, Kind.MOVED) else []
        about += ["memory lost"] if self.wiped else []
        about += [f"shard {self.shard}"] if self.kind in (Kind.MOVED, Kind.SOURCE_KILLED, Kind.TARGET_KILLED) else []
        about += [f"for {self.paused_s:.2g} s"] if self.paused_s else []
        if self.kind in GONE:
            about.append("not back" if self.back_after is None else f"back after {self.back_after} batches")
        said = f" ({', '.join(about)})" if about else ""
        return f"{self.kind}{said}, {self.after_s:.2g} s after batch {self.batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that happens in one run."""

    seed: int
    delay_max_s: float
    faults: tuple[Fault, ...]

    @property
    def quiet(self) -> bool:
        """Whether nothing in it may cost anything."""
        return all(fault.kind in QUIET for fault in self.faults)

    def sentence(self) -> str:
        return f"delays of {self.delay_max_s:g} s allowed; " + "; ".join(fault.sentence() for fault in self.faults)


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
    return History(seed=seed, delay_max_s=float(draw.choice([3.0, 20.0])), faults=tuple(faults))


def _fault(draw: Generator, batch: int, there: list[int]) -> Fault:
    kinds = [kind for kind in Kind if len(there) >= HOSTS_MIN or kind is not Kind.TWO_GONE]
    kind = kinds[int(draw.integers(len(kinds)))]
    host, other = (int(place) for place in draw.choice(there, size=2, replace=False))
    comes_back = len(there) < HOSTS_MIN or draw.random() < 0.6
    return Fault(
        kind=kind,
        batch=batch,
        after_s=round(float(draw.uniform(0.0, 1.5)), 3),
        host=host,
        other=other,
        back_after=int(draw.integers(0, 4)) if kind in GONE and comes_back else None,
        wiped=kind is Kind.WIPED or (kind in GONE and bool(draw.random() < 0.5)),
        paused_s=round(float(draw.uniform(1.0, 14.0)), 3) if kind is Kind.PAUSED else 0.0,
        shard=int(draw.integers(SHARDS)),
    )
