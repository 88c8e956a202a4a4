"""Who of a group is active and who is missing, as its seat has it: what may be added, and when a replica is let go.

Theory of operation
-------------------
The seat of a group is a list to which anybody may add the next entry and nobody anything else (see ``failover``). An
entry says who is active, and which replicas are

    away         they were not there for so long that nobody keeps for them any longer what they have not read
    returning    they are there again: what comes is kept for them, but what they have missed is gone

Whoever reads *for* the group, which are those that write the streams it reads, holds back what a replica has not read.
One that stays away would hold them up for ever. So, after a declared time, or sooner if a log is full, whoever is held
up adds an entry in which that replica is away, and only then lets go of what is kept for it alone:

    present --let go--> away --returns--> returning --returned--> present
                          ^                   |
                          +------let go-------+

*Never the last one.* The active replica is never let go, and another only while the heart of the active one beats: that
one has all that readers need, and one that was started again and only has its name in the seat may not (a random walk
found groups that lost the last copy so). Where nobody is active, because readers take from either copy, one is let go
only while another is there that is present; what it has in its log it keeps when it returns. Entries follow each other
one by one, so of two who would let go of a replica each, one finds the other's entry and thinks again.

*One that was let go never claims* to be active: it lacks what it has missed. It comes back in two steps. First it is
returning: from then on everything is kept for it, however little it has read. Then it starts from a peer that is
present (see ``restarting``), which has read at least all that was let go of before; and then it is present.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

NOBODY = -1
"""The epoch of a seat to which nothing was added yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seated:
    """The newest entry of a seat."""

    epoch: int = NOBODY
    replica: str = ""  # who is active; nobody if readers take from either copy, or nobody was yet
    away: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        assert not self.away & self.returning and self.replica not in self.missing, self

    @property
    def missing(self) -> frozenset[str]:
        """Who lacks what it has not read, or may lack it."""
        return self.away | self.returning

    def claimed(self, replica: str) -> "Seated":
        """The next entry, in which another is active."""
        return replace(self, epoch=self.epoch + 1, replica=replica)

    def let_go(self, replica: str) -> "Seated":
        """The next entry, in which nothing is kept for a replica."""
        return self._next(away=self.away | {replica}, returning=self.returning - {replica})

    def returns(self, replica: str) -> "Seated":
        """The next entry, in which everything is kept for one that was away."""
        assert replica in self.away, (replica, self)
        return self._next(away=self.away - {replica}, returning=self.returning | {replica})

    def returned(self, replica: str) -> "Seated":
        """The next entry, in which one that was away is as the others."""
        assert replica in self.returning, (replica, self)
        return self._next(away=self.away, returning=self.returning - {replica})

    def _next(self, *, away: frozenset[str], returning: frozenset[str]) -> "Seated":
        return replace(self, epoch=self.epoch + 1, away=away, returning=returning)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwayRule:
    """How long a replica may be away."""

    away_s: float
    full_s: float  # where it holds somebody up
    either: bool = False  # whether nobody is active

    def __post_init__(self) -> None:
        assert self.away_s > 0 and self.full_s > 0, self


def who_goes(
    seated: Seated, members: tuple[str, ...], *, absent_s: Mapping[str, float], full: bool, rule: AwayRule
) -> str:
    """The replica that is to be let go of; empty if none is.

    ``absent_s`` says for how long those have not been there that are not: of the active one, how long its heart has not
    been heard for longer than it may be silent.

    >>> rule, seated = AwayRule(away_s=60, full_s=1), Seated(epoch=0, replica="a")
    >>> who_goes(seated, ("a", "b"), absent_s={"b": 5.0}, full=False, rule=rule)
    ''
    >>> who_goes(seated, ("a", "b"), absent_s={"b": 5.0}, full=True, rule=rule)
    'b'
    >>> who_goes(seated, ("a", "b"), absent_s={"a": 99.0, "b": 99.0}, full=True, rule=rule)
    ''
    """
    enough_s = rule.full_s if full else rule.away_s
    for replica in sorted(absent_s, key=lambda name: (-absent_s[name], name)):
        if replica in seated.away or replica == seated.replica or absent_s[replica] < enough_s:
            continue
        others = {*members} - seated.missing - {replica} if rule.either else {seated.replica} & {*members}
        if others - absent_s.keys():
            return replica
    return ""
