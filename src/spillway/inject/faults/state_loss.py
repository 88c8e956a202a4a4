"""State that is gone: what an operator kept is lost with its memory, and it goes on with nothing."""

from dataclasses import dataclass
from typing import ClassVar

from spillway.inject.faults.fault import StateFault
from spillway.operators.operator import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLoss(StateFault):
    """An operator forgets all it kept; no tuple is lost."""

    model: ClassVar[str] = "state_loss"
    in_words: ClassVar[str] = "lost state"

    def corrupt(self, operator: Operator) -> None:
        operator.forget()
