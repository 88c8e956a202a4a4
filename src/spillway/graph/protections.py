"""How much error an operator may have after its memory is lost, and so how its state and its items are saved."""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.graph.contracts import Guarantee
from spillway.graph.spelling import Spelling, interval, said, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The limits of seed 002 (section 3.4), for all shards of an operator together."""

    theta: float = 0.0  # Θ: divergence of the state
    items: float = 0.0  # L: items that a receiver acknowledged
    unacked: float = 0.0  # Γ: items that were sent and not acknowledged


@dataclass(frozen=True, slots=True)
class Protection:
    """The policy on an operator."""

    spelling: ClassVar[Spelling | None] = None
    """How it is written on a command line, if it is."""

    @property
    def keeps_backups(self) -> bool:
        return True

    @property
    def of_job(self) -> bool:
        """Whether it protects a job as a whole: all its operators are saved together and go back together."""
        return False

    @property
    def keeps_items(self) -> bool:
        """Whether every tuple that reaches the operator is made durable before its batch is committed."""
        return False

    @property
    def loses_nothing(self) -> bool:
        """Whether a recovery gives back everything, what no metric measures included."""
        return False

    @property
    def loss_max(self) -> float:
        """The most that all failures together can move the state, in its metric; infinite where nothing bounds it.

        Compared with a run that gets the same input: what operators upstream lose comes on top.
        """
        return 0.0 if self.loses_nothing else math.inf

    @property
    def allows(self) -> Allowed:
        """What may be lost on purpose. Where nothing is known of what can be lost, nothing is allowed either."""
        return Allowed()

    @property
    def guarantee(self) -> Guarantee:
        """What of a contract it keeps. Batches are committed in order, so that no protection breaks that in a stream;
        the tuples of one batch have one time, so that none keeps it between streams."""
        return Guarantee(lossless=self.loses_nothing, why=self.why, instead="" if self.loses_nothing else self.instead)

    @property
    def why(self) -> str:
        """Why it loses nothing, or something, in one line."""
        return "a recovery gives back everything" if self.loses_nothing else "a recovery may lack what came last"

    instead: ClassVar[str] = "Exact(), or Coordinated(batches=…) on the graph"
    """What to use where something may not be lost."""

    def describe(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Nothing(Protection):
    """State is never backed up: after losing memory the operator starts empty."""

    spelling = Spelling(word="nothing", form="nothing")

    @property
    def keeps_backups(self) -> bool:
        return False

    @property
    def why(self) -> str:
        return "nothing is backed up: after losing memory it starts empty"


@dataclass(frozen=True, slots=True)
class Checkpoint(Protection):
    """State is backed up every so many tuples, or every so much time: afterwards it is stale by at most that.

    The interval is looked at when a batch ends, so a batch that is longer than it makes the batch the interval. A copy
    is taken then, and made durable while further batches run; should one be due before that is done, it is not made.

    Tuples that came after the last backup are lost with memory, and those they would have pushed out of a window are
    *stale* (seed 004, section 4.4). A window of so many tuples drops them after a recovery, by estimate: as many as
    came since in the meantime at the rate before the backup. With ``keep_stale`` it keeps them.

    >>> Checkpoint(every=10_000).describe()
    'Checkpoint(every 10,000 tuples)'
    >>> Checkpoint(every=timedelta(seconds=30)).describe()
    'Checkpoint(every 30 s)'
    """

    every: int | timedelta
    keep_stale: bool = False

    spelling = Spelling(
        word="checkpoint",
        form="checkpoint:every=TUPLES or checkpoint:every=SECONDSs, with ,keep_stale",
        settings={"every": interval, "keep_stale": said},
    )

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int | timedelta):
            raise GraphError(f"Checkpoint: every must be a number of tuples or a timedelta; got {self.every!r}.")
        if (self.every_s if isinstance(self.every, timedelta) else self.every) <= 0:
            raise GraphError(f"Checkpoint: every must be above zero; got {self.every!r}.")

    @property
    def every_tuples(self) -> int:
        """The interval in tuples, or 0 if it is one of time."""
        return self.every if isinstance(self.every, int) else 0

    @property
    def every_s(self) -> float:
        """The interval in seconds, or 0 if it is one of tuples."""
        return self.every.total_seconds() if isinstance(self.every, timedelta) else 0.0

    @property
    def why(self) -> str:
        return "what came since the last backup is lost with memory"

    def describe(self) -> str:
        interval = f"{self.every:,} tuples" if isinstance(self.every, int) else f"{self.every_s:g} s"
        return f"Checkpoint(every {interval}{', keeps stale tuples' if self.keep_stale else ''})"


@dataclass(frozen=True, slots=True)
class Approximate(Protection):
    """State is backed up when its divergence would pass the threshold that ``theta`` allows just then.

    However often and wherever memory is lost, the operator's state stays within ``theta`` of the state it would have
    had without failures *given the same input*, in the metric of its primitives, summed over its shards. Assumes that
    updates do not amplify an error already there (sums, counts and sketches do not). Without failures there is no
    error.

    What that means in total depends on the metric. With ``l1`` theta bounds the sum of all errors. With ``max`` it
    bounds the error of *each* number, so n keys may be off by n · theta together, and keys that never got beyond theta
    may be gone altogether. With ``l2`` n numbers are off by sqrt(n) · theta at most. With ``keys`` it bounds how many
    keys are missing.

    An operator that is fed by others which lose something gets other input than it would have had. What that adds is
    no part of its theta: it is shown, or said to be unbounded, by ``spillway run`` and on the page of a run.

    ``items`` and ``unacked`` (L and Γ in seed 002) say how many items may be lost before they reach the operator: at a
    receiver, which is given them when it is started, and at its senders. One item moves the state by at most some α, so
    the state stays within theta + α · (items + unacked). They are 0 where the source can be read again.
    """

    theta: float
    items: float = 0.0
    unacked: float = 0.0

    spelling = Spelling(
        word="approximate",
        form="approximate:theta=NUMBER[,items=NUMBER,unacked=NUMBER]",
        settings={"theta": float, "items": float, "unacked": float},
    )

    @property
    def loss_max(self) -> float:
        return self.theta

    @property
    def why(self) -> str:
        return f"its state may be off by up to {self.theta:,.6g} after losing memory"

    @property
    def allows(self) -> Allowed:
        return Allowed(theta=self.theta, items=self.items, unacked=self.unacked)

    def __post_init__(self) -> None:
        meanings = {
            "theta": "the largest divergence allowed",
            "items": "the most items that may wait at a receiver without a backup",
            "unacked": "the most items that senders may have sent without an acknowledgement",
        }
        for name, meaning in meanings.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise GraphError(f"Approximate: {name} must be a number; got {value!r}.")
            if not (math.isfinite(value) and value >= 0):
                raise GraphError(f"Approximate: {name} is {meaning}, a number of zero or more; got {value!r}.")

    def describe(self) -> str:
        named = {"items": self.items, "unacked": self.unacked}
        return f"Approximate(theta {self.theta:,.6g}" + "".join(f", {n} {v:,.6g}" for n, v in named.items() if v) + ")"


@dataclass(frozen=True, slots=True)
class Exact(Protection):
    """State is backed up in every batch before Spark commits it: nothing is ever lost.

    With ``items`` every tuple that reaches the operator is made durable too, in the same batch. Spark reads tuples
    again from sources that can give them again, so this adds nothing to what is kept; it is what systems do whose
    sources cannot ("mini-batch" in seed 002, section 4.1), and is here to be compared with.
    """

    items: bool = False

    spelling = Spelling(word="exact", form="exact, exact:items", settings={"items": said})

    @property
    def loses_nothing(self) -> bool:
        return True

    @property
    def keeps_items(self) -> bool:
        return self.items

    @property
    def why(self) -> str:
        return "its state is backed up in every batch, before that is committed"


@dataclass(frozen=True, slots=True)
class UpstreamBackup(Protection):
    """Every tuple is made durable before its batch is committed, state only every so many tuples: nothing is lost.

    After losing memory the state is recovered from its backup, and the tuples since then are applied to it again; those
    it already contains are not. A tuple is kept until a backup contains it.
    """

    every: int

    spelling = Spelling(word="upstream", form="upstream:every=TUPLES", settings={"every": whole})

    def __post_init__(self) -> None:
        check_whole("UpstreamBackup: every", self.every, least=1)

    @property
    def loses_nothing(self) -> bool:
        return True

    @property
    def keeps_items(self) -> bool:
        return True

    @property
    def why(self) -> str:
        return "tuples are kept until a backup contains them, and applied again"

    def describe(self) -> str:
        return f"UpstreamBackup(state every {self.every:,} tuples)"


@dataclass(frozen=True, slots=True)
class JobProtection(Protection):
    """A protection of a job: its checkpoint is the backups of all its shards at one batch, taken every so often.

    ``every`` is a number of tuples or a timedelta, ``batches`` a number of batches; one of the two is wanted. All are
    looked at when a batch begins, since all shards must know before any of them commits it. There is a checkpoint
    after ``BATCHES_MAX`` batches at the latest, because what Spark needs to go back is kept for so many.

    With ``jitter`` j each interval is drawn anew between 1 - j and 1 + j times that, so that jobs do not all save at
    once. A job that reads from other jobs alone leaves the schedule to them, if they ask for its checkpoints: it makes
    one of its own accord only if nobody has asked in twice the time.
    """

    every: int | timedelta | None = None
    batches: int | None = None
    jitter: float = 0.0

    BATCHES_MAX: ClassVar[int] = 1_000

    def __post_init__(self) -> None:
        who = type(self).__name__
        if (self.every is None) == (self.batches is None):
            raise GraphError(f"{who}: either every= (tuples, or a timedelta) or batches= is wanted; got {self!r}.")
        if self.batches is not None:
            check_whole(f"{who}: batches", self.batches, least=1)
            if self.batches > self.BATCHES_MAX:
                raise GraphError(f"{who}: batches is at most {self.BATCHES_MAX:,}; got {self.batches:,}.")
        elif isinstance(self.every, bool) or not isinstance(self.every, int | timedelta):
            raise GraphError(f"{who}: every must be a number of tuples or a timedelta; got {self.every!r}.")
        elif (self.every_s if isinstance(self.every, timedelta) else self.every) <= 0:
            raise GraphError(f"{who}: every must be above zero; got {self.every!r}.")
        if not 0 <= self.jitter < 1:
            raise GraphError(f"{who}: jitter is a share of the interval, from 0 up to 1; got {self.jitter!r}.")

    @property
    def of_job(self) -> bool:
        return True

    @property
    def protocol(self) -> str:
        """How checkpoints of jobs that read from each other are taken: by the one in ``protocols`` of its own name."""
        return type(self).__name__.lower()

    @property
    def loses_nothing(self) -> bool:
        return True

    @property
    def every_tuples(self) -> int:
        """The interval in tuples, or 0 if it is none of tuples."""
        return self.every if isinstance(self.every, int) else 0

    @property
    def every_s(self) -> float:
        """The interval in seconds, or 0 if it is none of time."""
        return self.every.total_seconds() if isinstance(self.every, timedelta) else 0.0

    @property
    def batches_max(self) -> int:
        """The most batches between two checkpoints, but for jitter."""
        return self.batches or self.BATCHES_MAX

    @property
    def batches_most(self) -> int:
        """The same, with jitter."""
        return min(math.ceil(self.batches_max * (1 + self.jitter)), self.BATCHES_MAX)

    def describe(self) -> str:
        if self.batches is not None:
            interval = f"{self.batches:,} {'batch' if self.batches == 1 else 'batches'}"
        else:
            interval = f"{self.every_tuples:,} tuples" if self.every_tuples else f"{self.every_s:g} s"
        jitter = f", jitter {self.jitter:g}" if self.jitter else ""
        return f"{type(self).__name__}(every {interval}{jitter})"


@dataclass(frozen=True, slots=True)
class Coordinated(JobProtection):
    """All shards of a job are backed up together now and then, and nothing is ever lost.

    When memory is lost, the whole job goes back to its last checkpoint and its input is read again from there: state
    and output are those of a run without failures. Its sources must give the same tuples again, and its sinks forget
    what came after the checkpoint (see ``ForEachBatch`` for functions of your own). Given to a graph, or to all of its
    operators with state.

    In a graph with jobs each goes back alone. A checkpoint counts once the jobs that read from this one have a
    checkpoint of all that was written before it, so that none needs any of a stream log. With ``extended`` a job that
    reads may ask for a part of the log in such a checkpoint instead, where that is less than a checkpoint of its own
    (behind joins), or where checkpoints would wait for each other for ever (where jobs send feedback to each other).

    >>> Coordinated(batches=10).describe(), Coordinated(every=1_000_000).describe()
    ('Coordinated(every 10 batches)', 'Coordinated(every 1,000,000 tuples)')
    >>> Coordinated(batches=10, extended=True).describe()
    'Coordinated(every 10 batches, extended)'
    """

    extended: bool = False

    spelling = Spelling(
        word="coordinated",
        form="coordinated:batches=NUMBER, coordinated:every=TUPLES or coordinated:every=SECONDSs, with ,extended",
        settings={"every": interval, "batches": whole, "jitter": float, "extended": said},
    )

    @property
    def protocol(self) -> str:
        return "extended" if self.extended else "coordinated"

    def describe(self) -> str:
        told = JobProtection.describe(self)
        return f"{told.removesuffix(')')}, extended)" if self.extended else told


@dataclass(frozen=True, slots=True)
class Uncoordinated(JobProtection):
    """As ``Coordinated``, but each job's checkpoint counts at once, whatever other jobs have.

    So it has to hold what they may still need: those tuples of its stream logs that were not acknowledged.

    >>> Uncoordinated(batches=10).describe()
    'Uncoordinated(every 10 batches)'
    """

    spelling = Spelling(
        word="uncoordinated",
        form="uncoordinated:batches=NUMBER, uncoordinated:every=TUPLES or uncoordinated:every=SECONDSs",
        settings={"every": interval, "batches": whole, "jitter": float},
    )
