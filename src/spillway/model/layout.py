"""How many copies of each operator run, which of them belong together, and how each comes back after a crash.

A protection answers these questions once, for a flow; everything else follows. Copies of operators in one *group* are
wired replica to replica; between any others every copy of the writer reaches every copy of the reader. Operators of one
*job* go down together and come back together; every replica of a job does so by itself.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spillway.errors import ModelError
from spillway.model.flow import Flow

COPIES_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What is left of an operator's state after a crash.

    `scratch`: nothing; until its windows are full again it puts out less, but nothing tainted. `checkpoint`: all but
    the last `age_s` and the outage; it puts out tainted tuples until the state has settled. `whole`: everything, copied
    from a replica that did not crash. `bounded`: all but as many tuples as the technique still allows to be forgotten
    (`Building.allowed`). `exact`: everything.
    """

    state: Literal["scratch", "checkpoint", "whole", "bounded", "exact"] = "scratch"
    age_s: float = 0.0

    def __post_init__(self) -> None:
        if self.age_s < 0:
            raise ModelError(f"Restart: a checkpoint is 0 seconds old or older; got {self.age_s!r}.")


SCRATCH = Restart()
WHOLE = Restart(state="whole")
EXACT = Restart(state="exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redo:
    """What a job does again after a crash: all it had taken in since it last saved itself.

    It saves itself after every `every_s` of input, for the first time `offset_s` earlier. What it saved counts only
    `lag_s` later.
    """

    every_s: float
    offset_s: float = 0.0
    lag_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.every_s < math.inf:
            raise ModelError(f"Redo: every_s must be above 0; got {self.every_s!r}.")
        if not (0 <= self.offset_s < math.inf and 0 <= self.lag_s < math.inf):
            raise ModelError(f"Redo: offset_s and lag_s must be 0 or more; got {self!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The answers, one per operator of the flow in its order."""

    flow: Flow
    copies: tuple[int, ...]
    groups: tuple[int, ...]  # -1 for none
    restarts: tuple[Restart, ...]
    deduplicated: bool = False  # whether readers drop what another copy of the writer has sent already
    keeps: bool = False  # whether streams keep what a reader cannot take, instead of dropping it
    drops: frozenset[int] = frozenset()  # operators for which nothing is kept all the same
    catch_up: float | None = None  # how many times as fast as tuples come they are caught up with; None: see `keeping`
    jobs: tuple[int, ...] = ()  # the job of each operator; each is one by itself if there are none
    redo: Mapping[int, Redo] = field(default_factory=dict)  # by job

    def __post_init__(self) -> None:
        assert not (self.keeps and self.deduplicated), "what is kept is kept once: copies have nothing to drop"
        assert self.keeps or not self.redo, "what is done again must have been kept"
        assert self.keeps or not self.drops, "where nothing is kept nobody is left out"
        assert not {self.job(index) for index in self.drops} & {*self.redo}, "what is done again must have been kept"
        if self.catch_up is not None and not 1 < self.catch_up < math.inf:
            raise ModelError(f"Layout: tuples are caught up with faster than they come; got {self.catch_up!r} times.")
        assert len(self.jobs) in (0, len(self.flow.operators))
        assert len(self.copies) == len(self.groups) == len(self.restarts) == len(self.flow.operators)
        for operator, count in zip(self.flow.operators, self.copies, strict=True):
            if not 1 <= count <= COPIES_MAX:
                raise ModelError(f"Operator {operator.name!r}: 1 to {COPIES_MAX} copies are wanted; got {count}.")

    def aligned(self, writer: int, reader: int) -> bool:
        """Whether replicas of the two are wired one to one."""
        return self.groups[writer] >= 0 and self.groups[writer] == self.groups[reader]

    def readers(self, writer: int, replica: int, reader: int) -> tuple[int, ...]:
        """Which copies of the reader get what one copy of the writer puts out."""
        return (replica,) if self.aligned(writer, reader) else tuple(range(self.copies[reader]))

    def members(self, group: int) -> tuple[int, ...]:
        return tuple(index for index, of in enumerate(self.groups) if of == group)

    def keeps_for(self, operator: int) -> bool:
        """Whether what an operator cannot take is kept for it."""
        return self.keeps and operator not in self.drops

    def job(self, operator: int) -> int:
        """The number of an operator's job."""
        return self.jobs[operator] if self.jobs else operator

    def of_job(self, job: int) -> tuple[int, ...]:
        return tuple(index for index in range(len(self.copies)) if self.job(index) == job)


def plain(
    flow: Flow,
    *,
    restarts: Mapping[str, Restart] | None = None,
    keeps: bool = False,
    catch_up: float | None = None,
    jobs: tuple[int, ...] = (),
    redo: Mapping[int, Redo] | None = None,
) -> Layout:
    """One copy of everything; operators not named start from scratch."""
    count = len(flow.operators)
    known = restarts or {}
    for name in known:
        flow.index(name)
    return Layout(
        flow=flow,
        copies=(1,) * count,
        groups=(-1,) * count,
        restarts=tuple(known.get(operator.name, SCRATCH) for operator in flow.operators),
        keeps=keeps,
        catch_up=catch_up,
        jobs=jobs,
        redo=redo or {},
    )


def exact(
    flow: Flow, jobs: Sequence[Sequence[str]], redo: Callable[[int], Redo], *, catch_up: float | None = None
) -> Layout:
    """One copy of everything in jobs that lose nothing: each does again what it had not saved, as `redo` says of it.

    Operators that are in no job are jobs of their own.
    """
    placed = {flow.index(name): at for at, names in enumerate(jobs) for name in names}
    alone = [index for index in range(len(flow.operators)) if index not in placed]
    numbers = {**placed, **{index: len(jobs) + at for at, index in enumerate(alone)}}
    return plain(
        flow,
        restarts={operator.name: EXACT for operator in flow.operators},
        keeps=True,
        catch_up=catch_up,
        jobs=tuple(numbers[index] for index in range(len(flow.operators))),
        redo={job: redo(job) for job in range(len(jobs) + len(alone))},
    )
