"""State that is old: what an operator kept comes back from a backup, and lacks all that came since.

What a recovery leaves where the input is kept and the state is not up to date, as under ``Approximate``. No tuple is
lost but those that only the state knew of.
"""

from dataclasses import dataclass
from typing import ClassVar

from spillway.inject.faults.fault import SetBackFault


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSetBack(SetBackFault):
    """An operator goes on with what it kept ``length`` tuples of the source ago; an outage says how long that is."""

    model: ClassVar[str] = "set_back"
    in_words: ClassVar[str] = "state set back"
