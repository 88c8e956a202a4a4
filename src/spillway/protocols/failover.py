"""Which replica of a job is active, and when another takes over.

Theory of operation
-------------------
A job in a *group* runs as several replicas. All read the same streams and write logs of their own; readers follow the
log of the *active* one. Who that is stands in the group's *seat*: a list of epochs, each with the replica that is
active in it, to which anybody may add the next one and nobody anything else. A file system gives that by files that are
created once and never replaced. So there is one active replica in an epoch whoever is slow, paused or mistaken; of the
epochs the newest counts.

Each replica looks at the seat every so often, with whether the heartbeat of the active one has moved since the last
look:

    no epoch yet                                    whoever is ready *claims* the first
    the newest is its own                           it is active
    the newest is another's whose heart beats       it stands by
    ... has not beaten for ``detection_s``          it claims the next epoch, if it is ready
    a claim was too late                            another has that epoch: it stands by
    it was let go (see ``seating``)                 it stands by, whatever else it sees

    standby --silent--> claiming --won--> active
       ^                   |                 |
       +-------lost--------+                 |
       +------------superseded---------------+

*Ready* is a replica that has all that readers may still ask for: it is then as good as the active one. One that is not
claims nothing as long as a ready one may; after ``patience`` times the detection time it does, if that was declared
(free running: what it lacks is lost, and counted), since otherwise nobody would be active although a replica lives.

A replica that was only slow finds a newer epoch when it wakes, and stands by. What it wrote meanwhile is in its own
log, which nobody follows, so it needs no fence.

A heart beats only while its replica is active. One that was active, died and was started again stands by although the
newest epoch is its own: what readers followed is the log of the one it was. If it lacks what they need, others must be
able to take over (a random walk found groups in which all listened to the heart of such a one for ever).

Time is told with each look. Beats are counted and compared; nobody trusts the clock of another.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from spillway.protocols.seating import NOBODY

_STORY_MAX = 50


class State(StrEnum):
    """What a replica is to its group."""

    STANDBY = "standby"
    CLAIMING = "claiming"
    ACTIVE = "active"


class Cause(StrEnum):
    """What makes it something else."""

    SILENT = "silent"
    WON = "won"
    LOST = "lost"
    SUPERSEDED = "superseded"


MEANING = {
    Cause.SILENT: "nobody is active, or the active one's heart has not beaten for the detection time",
    Cause.WON: "the epoch it claimed is its own",
    Cause.LOST: "another has the epoch it claimed",
    Cause.SUPERSEDED: "there is a newer epoch, which is another's",
}

TRANSITIONS: dict[tuple[State, Cause], State] = {
    (State.STANDBY, Cause.SILENT): State.CLAIMING,
    (State.CLAIMING, Cause.WON): State.ACTIVE,
    (State.CLAIMING, Cause.LOST): State.STANDBY,
    (State.ACTIVE, Cause.SUPERSEDED): State.STANDBY,
}


class FailoverError(AssertionError):
    """An event that cannot be, which changed nothing; the message has the story that led there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How long is waited for whom."""

    detection_s: float
    patience: float | None = None
    """How many detection times a replica that is not ready waits for one that is; None: for ever."""

    def __post_init__(self) -> None:
        assert self.detection_s > 0 and (self.patience is None or self.patience >= 1), self


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A look at the seat."""

    epoch: int  # the newest; ``NOBODY`` if there is none
    active: str  # the replica it belongs to
    beats: int  # of that replica's heart, so far
    ready: bool  # whether the one who looks could take over and lose nothing
    now_s: float
    let_go: bool = False  # whether the one who looks was let go, and has not returned


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What came of a claim: the epoch is its own, or was another's before."""

    epoch: int
    won: bool


Event = Looked | Claimed


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Add this epoch to the seat, if nobody else has."""

    epoch: int


class Failover:
    """One replica's part in its group, from its start to its end."""

    def __init__(self, replica: str, rule: Rule) -> None:
        self.replica = replica
        self.rule = rule
        self.state = State.STANDBY
        self.epoch = NOBODY
        """The newest that it knows of, or claims."""
        self._heard: tuple[int, int] | None = None  # the epoch and the beats that it saw last
        self._heard_s = 0.0
        self.silent_s = 0.0
        """For how long it had not heard the active one's heart when it looked last."""
        self._story: deque[Event | Claim] = deque(maxlen=_STORY_MAX)

    @property
    def story(self) -> list[str]:
        """The last events, and what was to be done about each."""
        return [f"  {told}" if isinstance(told, Claim) else str(told) for told in self._story]

    def handle(self, event: Event) -> Claim | None:
        """What to do about an event, if anything; one that cannot be raises and changes nothing."""
        problem = self._problem(event)
        if problem:
            story = "\n".join(f"  {line}" for line in self.story)
            raise FailoverError(f"Replica {self.replica!r} refuses {event}: {problem}. What happened:\n{story}")
        self._story.append(event)
        if isinstance(event, Claimed):
            self._move(Cause.WON if event.won else Cause.LOST)
            self._heard = None  # whoever is active now has a detection time from here on
            return None
        claim = self._looked(event)
        if claim is not None:
            self._story.append(claim)
        return claim

    def _problem(self, event: Event) -> str:
        if isinstance(event, Claimed):
            if self.state is not State.CLAIMING or event.epoch != self.epoch:
                return "it claims no such epoch"
        elif self.state is State.CLAIMING:
            return f"its claim of epoch {self.epoch} is open"
        elif event.epoch < self.epoch:
            return f"epochs never go back, and it knows of {self.epoch}"
        elif self.state is State.ACTIVE and event.epoch == self.epoch and event.active != self.replica:
            return "an epoch has one replica"
        elif event.let_go and event.active == self.replica:
            return "whoever is active is not let go"
        return ""

    def _looked(self, event: Looked) -> Claim | None:
        if event.epoch > self.epoch and self.state is State.ACTIVE and event.active != self.replica:
            self._move(Cause.SUPERSEDED)
        self.epoch = event.epoch  # of its own that another has added, it is active too
        if self.state is State.ACTIVE:
            return None
        if self._heard != (event.epoch, event.beats):
            self._heard, self._heard_s = (event.epoch, event.beats), event.now_s
        self.silent_s = event.now_s - self._heard_s
        if event.let_go:
            return None
        waits = event.epoch != NOBODY and event.active != self.replica
        enough_s = self.rule.detection_s if waits else 0.0
        if not event.ready:
            if self.rule.patience is None:
                return None
            enough_s += self.rule.patience * self.rule.detection_s
        if self.silent_s < enough_s:
            return None
        self._move(Cause.SILENT)
        self.epoch += 1
        return Claim(epoch=self.epoch)

    def _move(self, cause: Cause) -> None:
        self.state = TRANSITIONS[self.state, cause]


def table() -> str:
    """The transitions as documents show them.

    >>> print(table().splitlines()[2])
    | standby | silent: nobody is active, or the active one's heart has not beaten for the detection time | claiming |
    """
    rows = [f"| {state} | {cause}: {MEANING[cause]} | {then} |" for (state, cause), then in TRANSITIONS.items()]
    return "\n".join(["| a replica that is | when | becomes |", "|---|---|---|", *rows])
