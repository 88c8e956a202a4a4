"""How many copies of each operator run, which of them belong together, and how each comes back after a crash.

A protection answers these questions once, for a flow; everything else follows. Copies of operators in one *group* are
wired replica to replica; between any others every copy of the writer reaches every copy of the reader.
"""

from dataclasses import dataclass
from typing import Literal

from spillway.errors import ModelError
from spillway.model.flow import Flow

COPIES_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What is left of an operator's state after a crash.

    `scratch`: nothing; until its windows are full again it puts out less, but nothing tainted. `checkpoint`: all but
    the last `age_s` and the outage; it puts out tainted tuples until the state has settled. `whole`: everything, copied
    from a replica that did not crash.
    """

    state: Literal["scratch", "checkpoint", "whole"] = "scratch"
    age_s: float = 0.0

    def __post_init__(self) -> None:
        if self.age_s < 0:
            raise ModelError(f"Restart: a checkpoint is 0 seconds old or older; got {self.age_s!r}.")


SCRATCH = Restart()
WHOLE = Restart(state="whole")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The answers, one per operator of the flow in its order."""

    flow: Flow
    copies: tuple[int, ...]
    groups: tuple[int, ...]  # -1 for none
    restarts: tuple[Restart, ...]
    deduplicated: bool = False  # whether readers drop what another copy of the writer has sent already

    def __post_init__(self) -> None:
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


def plain(flow: Flow, *, restarts: dict[str, Restart] | None = None) -> Layout:
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
    )
