"""A job that runs more than once at a time: what is declared of its replicas, and how each of them is named."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal, get_args

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.graph.spelling import Spelling, interval, said, whole

Failing = Literal["by position", "free running"]
Restarting = Literal["own", "peer", "nothing"]

REPLICAS_MAX = 8

_RESTARTED = {"own": (), "peer": ("restarted from a peer",), "nothing": ("restarted from nothing",)}
_FAILOVERS: dict[str, Failing] = {"position": "by position", "free": "free running"}


def _failover(word: str) -> Failing:
    if word not in _FAILOVERS:
        raise ValueError(f"failover is {' or '.join(_FAILOVERS)}, not {word!r}")
    return _FAILOVERS[word]


@dataclass(frozen=True, slots=True)
class Group:
    """A job runs as several replicas that read the same streams; who reads from it follows the *active* one.

    When the active replica falls silent for ``detection``, another takes over (seed 001, 5.5.2: high-availability
    groups). ``failover`` says what readers are sent then:

    "by position"   all that they lack, from the log of the new active one: nothing is lost or doubled. Replicas put out
                    the same in the same batch, so a position in one log is that in another.
    "free running"  what the new active one puts out from then on, as in System S: what its readers had not got of what
                    it put out before is lost, and counted.

    ``restart`` says what a replica goes on with that died and is started again, or is started late:

    "own"      its own memory or, if that is lost, its backups, as its operators' protections have it; it then reads
               all that it has missed.
    "peer"     the memory of a replica that has come further, from the batch that one has done; its own if none has.
    "nothing"  empty state, behind what another replica has done, as in System S. What it puts out is not what others
               do, so it is for groups that run freely, and for operators that keep no backups.

    One that stays away holds up those it reads from, since they keep what it has not read. After ``away_max``, or when
    a log is full, they let it go, if another replica is there; when it comes back it starts from that one, whatever
    ``restart`` says.

    >>> Group().describe()
    'Group(2 replicas, by position, detected after 1 s)'
    """

    replicas: int = 2
    detection: timedelta = timedelta(seconds=1)
    failover: Failing = "by position"
    restart: Restarting = "own"
    away_max: timedelta = timedelta(minutes=10)

    spelling: ClassVar[Spelling] = Spelling(
        word="group",
        form="group[:replicas=NUMBER,detection=SECONDSs,failover=position or free,restart=own, peer or nothing]",
        settings={"replicas": whole, "detection": interval, "failover": _failover, "restart": str},
        words={"failover": lambda failing: next(word for word, meant in _FAILOVERS.items() if meant == failing)},
    )

    def __post_init__(self) -> None:
        check_whole("Group: replicas", self.replicas, least=2)
        if self.replicas > REPLICAS_MAX:
            raise GraphError(f"Group: replicas is at most {REPLICAS_MAX}; got {self.replicas}.")
        times: dict[str, object] = {"detection": self.detection, "away_max": self.away_max}
        for name, given in times.items():
            if not isinstance(given, timedelta) or given <= timedelta(0):
                raise GraphError(f"Group: {name} must be a timedelta above zero; got {given!r}.")
        if self.failover not in get_args(Failing):
            raise GraphError(f"Group: failover is one of {', '.join(get_args(Failing))}; got {self.failover!r}.")
        if self.restart not in get_args(Restarting):
            raise GraphError(f"Group: restart is one of {', '.join(get_args(Restarting))}; got {self.restart!r}.")
        if self.restart == "nothing" and (self.either or not self.free_running):
            raise GraphError(
                "Group: a replica that starts again from nothing puts out something else than the others, and readers "
                "that go on by position, or take batches from either copy, would get a mixture. Say restart='peer', or "
                "failover='free running'."
            )

    @property
    def free_running(self) -> bool:
        return self.failover == "free running"

    @property
    def either(self) -> bool:
        """Whether readers take what they need from whichever replica has it."""
        return False

    @property
    def compared(self) -> bool:
        """Whether readers compare what replicas put out."""
        return False

    def describe(self) -> str:
        said = [f"{self.replicas} replicas", self.failover, f"detected after {self.detection.total_seconds():g} s"]
        return f"Group({', '.join([*said, *_RESTARTED[self.restart]])})"

    def names(self, job: str) -> tuple[str, ...]:
        """The replicas of a job, each a job by itself.

        >>> Group(3).names("match")
        ('match-0', 'match-1', 'match-2')
        """
        return tuple(f"{job}-{number}" for number in range(self.replicas))


@dataclass(frozen=True, slots=True)
class Replicate(Group):
    """Every job of a graph runs twice, and whoever reads from one takes each batch from the copy that has it first.

    Full replication (seed 001, 5.5.3): no copy is active, so nothing has to be detected and nobody takes over. What
    came from one copy is not taken from the other: batches have numbers. What is damaged in one log is taken from the
    other. Sinks are in jobs of their own, which run once, so that each output is written once.

    A value that is corrupted silently in one copy goes on to its readers, if that copy is the faster. With ``compare``
    each copy holds the checksums of its batches against the other's, and a run that finds them apart ends with an
    error, since nothing tells which copy is right.

    >>> Replicate().describe(), Replicate(compare=True).describe()
    ('Replicate(2 copies)', 'Replicate(2 copies, compared)')
    """

    compare: bool = False

    spelling: ClassVar[Spelling] = Spelling(
        word="replicate", form="replicate[:replicas=NUMBER]", settings={"replicas": whole, "compare": said}
    )

    @property
    def either(self) -> bool:
        return True

    @property
    def compared(self) -> bool:
        return self.compare

    def describe(self) -> str:
        said = [f"{self.replicas} copies", *(["compared"] if self.compare else [])]
        return f"Replicate({', '.join([*said, *_RESTARTED[self.restart]])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """That a job is one of a group's replicas."""

    job: str  # as it was declared
    name: str  # its own
    group: Group


def log_of(stream: str, replica: int | None) -> str:
    """The folder of a stream's log, one for each replica of the job that writes it.

    >>> log_of("a.out", None), log_of("a.out", 1)
    ('a.out', 'a.out~1')
    """
    return stream if replica is None else f"{stream}~{replica}"
