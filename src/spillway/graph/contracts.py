"""What is promised of what leaves a graph: reliability levels of seed 003 (section 2.5), declared on a sink.

Whether it can be kept is found from what is declared upstream: every protection, and every source, has a ``Guarantee``
(``graph.keeping`` asks for it). Whether it was kept is told from the output (``score.reliability_contract``).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from spillway.errors import GraphError

Order = Literal["stream", "between"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What is asked of an output, compared with that of a system that never fails and takes no time.

    lossless   every tuple once, as it should be, and no others (LOLE)
    delay_max  none later than that (LIDE)
    order      "stream": tuples come in the order of their numbers (IASO); "between": and those of different streams in
               the order in which they should (IESO)

    >>> Contract(lossless=True, delay_max=timedelta(seconds=5), order="stream").describe()
    'lossless, at most 5 s late, in order in a stream'
    """

    lossless: bool = False
    delay_max: timedelta | None = None
    order: Order | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.lossless, bool):
            raise GraphError(f"Contract: lossless is True or False; got {self.lossless!r}.")
        late: object = self.delay_max
        if late is not None and (not isinstance(late, timedelta) or late < timedelta(0)):
            raise GraphError(f"Contract: delay_max must be a timedelta of 0 or more; got {late!r}.")
        if self.order is not None and self.order not in get_args(Order):
            raise GraphError(f"Contract: order is one of {', '.join(get_args(Order))}; got {self.order!r}.")
        if not self.lossless and self.delay_max is None and self.order is None:
            raise GraphError("Contract: nothing is asked. Say lossless=True, a delay_max or an order.")

    def describe(self) -> str:
        asked = ["lossless"] if self.lossless else []
        asked += [] if self.delay_max is None else [f"at most {self.delay_max.total_seconds():g} s late"]
        asked += {"stream": ["in order in a stream"], "between": ["in order between streams"]}.get(self.order or "", [])
        return ", ".join(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What a protection or a source keeps of a contract through any failure of memory, and why, in one line."""

    lossless: bool
    order: Order | None = "stream"
    why: str
    instead: str = ""  # what to use where this is not enough

    def keeps(self) -> str:
        """In words."""
        kept = ["lossless"] if self.lossless else []
        kept += {"stream": ["order in a stream"], "between": ["order between streams"]}.get(self.order or "", [])
        return ", ".join(kept) or "nothing"
