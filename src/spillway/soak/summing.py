"""What came of some histories, added to what came of others."""

from dataclasses import dataclass, field, fields
from typing import Self


@dataclass(slots=True, kw_only=True)
class Summed:
    """Numbers and counters, field by field, and what was broken."""

    broken: dict[int, str] = field(default_factory=dict)  # by seed: the whole story

    def add(self, others: Self) -> None:
        """
        >>> mine = Summed(broken={3: "a story"})
        >>> mine.add(Summed(broken={5: "another"}))
        >>> mine
        Summed(broken={3: 'a story', 5: 'another'})
        """
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(others, part.name)
            setattr(self, part.name, mine | theirs if part.name == "broken" else mine + theirs)
