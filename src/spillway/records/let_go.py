"""That nobody waits for a replica any longer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """One time a replica of a group was let go: what it had not read is no longer kept for it."""

    job: str  # the group
    replica: str
    by: str  # the job that it reads from
    absent_s: float  # for how long it had not been there, as far as that job has seen
    full: bool  # whether a log was full
    epoch: int
    time_s: float  # on the wall clock

    def told(self) -> str:
        """In a sentence."""
        full = " and a log was full" if self.full else ""
        return (
            f"Replica {self.replica!r} was let go by job {self.by!r}: it was away for {self.absent_s:.1f} s{full}. "
            f"When it comes back it starts from another replica."
        )
