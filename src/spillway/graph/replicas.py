"""A job that runs more than once at a time: what is declared of its replicas, and how each of them is named."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from spillway.errors import GraphError
from spillway.given import check_whole

Failing = Literal["by position", "free running"]

REPLICAS_MAX = 8


@dataclass(frozen=True, slots=True)
class Group:
    """A job runs as several replicas that read the same streams; who reads from it follows the *active* one.

    When the active replica falls silent for ``detection``, another takes over (seed 001, 5.5.2: high-availability
    groups). ``failover`` says what readers are sent then:

    "by position"   all that they lack, from the log of the new active one: nothing is lost or doubled. Replicas put out
                    the same in the same batch, so a position in one log is that in another.
    "free running"  what the new active one puts out from then on, as in System S: what its readers had not got of what
                    it put out before is lost, and counted.

    What protects the state of each replica is for its operators to say. It starts again from its own memory or backups.

    >>> Group().describe()
    'Group(2 replicas, by position, detected after 1 s)'
    """

    replicas: int = 2
    detection: timedelta = timedelta(seconds=1)
    failover: Failing = "by position"

    def __post_init__(self) -> None:
        check_whole("Group: replicas", self.replicas, least=2)
        if self.replicas > REPLICAS_MAX:
            raise GraphError(f"Group: replicas is at most {REPLICAS_MAX}; got {self.replicas}.")
        given: object = self.detection
        if not isinstance(given, timedelta) or given <= timedelta(0):
            raise GraphError(f"Group: detection must be a timedelta above zero; got {given!r}.")
        if self.failover not in get_args(Failing):
            raise GraphError(f"Group: failover is one of {', '.join(get_args(Failing))}; got {self.failover!r}.")

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
        return f"Group({self.replicas} replicas, {self.failover}, detected after {self.detection.total_seconds():g} s)"

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
    came from one copy is not taken from the other: batches have numbers. Sinks are in jobs of their own, which run
    once.

    A value that is corrupted silently in one copy goes on to its readers, if that copy is the faster. With ``compare``
    each copy holds the checksums of its batches against the other's, and a run that finds them apart ends with an
    error, since nothing tells which copy is right.

    >>> Replicate().describe(), Replicate(compare=True).describe()
    ('Replicate(2 copies)', 'Replicate(2 copies, compared)')
    """

    compare: bool = False

    @property
    def either(self) -> bool:
        return True

    @property
    def compared(self) -> bool:
        return self.compare

    def describe(self) -> str:
        return f"Replicate({self.replicas} copies{', compared' if self.compare else ''})"


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
