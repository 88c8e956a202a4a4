"""What a job's checkpoint machine is told, and what it tells its runtime to do: plain data.

A *position* of a stream is the number of tuples before it: who has read up to 5 has read the tuples 0 to 4 and goes on
with 5; who has acknowledged 5 will never ask for those again. A stream has one producer and one reader; an output that
two jobs read is two streams, and the runtime that stores it once trims it as far as both allow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A job's time context at the end of one batch, and where the stream log saved with it begins."""

    batch: int
    read: Mapping[str, int]  # by input
    written: Mapping[str, int]  # by output
    log_start: Mapping[str, int]  # by output; what lies between it and ``written`` is saved too. Known at ``Save``


def nothing_yet(*, inputs: Mapping[str, int] | frozenset[str], outputs: frozenset[str]) -> Checkpoint:
    """Where a job begins that has no checkpoint: permanent without anyone having saved it.

    >>> nothing_yet(inputs=frozenset({"a"}), outputs=frozenset())
    Checkpoint(batch=-1, read={'a': 0}, written={}, log_start={})
    """
    return Checkpoint(
        batch=-1, read=dict.fromkeys(inputs, 0), written=dict.fromkeys(outputs, 0), log_start=dict.fromkeys(outputs, 0)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Stands in a stream's log, takes no position: "make a checkpoint that has read up to here; one of mine waits"."""

    stream: str
    position: int
    checkpoint: int  # the batch of the sender's that waits
    waiting: Mapping[str, int] = field(default_factory=dict)  # by job the newest that waits for this, through whomever
    extensible: bool = False  # whether the reader may ask for a part of the log in that checkpoint instead


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """The tuples of an output from one position up to another."""

    stream: str
    start: int
    end: int


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A batch is committed: state, tuples read and tuples written."""

    batch: int
    read: Mapping[str, int]
    written: Mapping[str, int]
    due: bool = False  # whether the job's own schedule wants a checkpoint here
    requests: tuple[Request, ...] = ()  # met so far and not told of yet, none ahead of ``read``
    state_bytes: int = 0  # that a checkpoint would have now
    tuple_bytes: Mapping[str, int] = field(default_factory=dict)  # by input, as measured; a mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """No batch is running, and requests stand in the logs of inputs; ahead of what was read, too, while held up."""

    requests: tuple[Request, ...]
    held_up: bool = False  # whether the next batch waits because the log of an output is full


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """The reader of an output will never go back behind a position. May come late, twice and in any order."""

    stream: str
    position: int
    load: Mapping[str, int] = field(default_factory=dict)  # bytes of a checkpoint, by job: the reader's and those after


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionAsked:
    """The reader of an output asks for the log from a position on in a checkpoint, in place of one of its own."""

    stream: str
    position: int
    checkpoint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The durable write of a checkpoint is finished."""

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """The first event of a job that has been there before.

    Its memory is lost: only ``permanent`` is given, the newest checkpoint whose durable write was finished. Only its
    driver was: ``now`` has the last batch and its positions, ``log_start`` in it says where the logs in memory begin,
    and ``kept`` are the copies that are still there.
    """

    permanent: Checkpoint
    now: Checkpoint | None = None
    kept: tuple[Checkpoint, ...] = ()


Event = Committed | Asked | Acknowledged | ExtensionAsked | Saved | Restarted

# -- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Copy the job's state as of this batch, which is the last one, to memory."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """Make a kept copy durable, with these parts of the log; then tell ``Saved``. Batches may go on meanwhile."""

    checkpoint: Checkpoint  # as kept, but for where its log begins
    log: tuple[LogPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """The copy in memory is no longer needed."""

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Put a request at the end of its stream's log."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Tell the producer of an input that this job will never go back behind a position."""

    stream: str
    position: int
    load: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskExtension:
    """Tell the producer of an input what ``ExtensionAsked`` says."""

    stream: str
    position: int
    checkpoint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Tuples and requests of an output before this position may go from memory, and need not be put there again.

    The position may be ahead of what was written: by a job that went back, or whose last batch was not committed.
    """

    stream: str
    position: int


Action = Keep | Save | Forget | Send | Acknowledge | AskExtension | Trim
