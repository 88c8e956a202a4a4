"""That another replica of a group became active."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedOver:
    """One time a replica became active, the first one too."""

    job: str  # the group
    replica: str
    epoch: int
    before: str  # who was active; empty if nobody was
    silent_s: float  # for how long that one had not been heard, as far as the new one listened
    lost_tuples: int  # which readers were not sent: of a group that runs freely
    gone_batches: int = 0  # which they were not sent either, at most: nobody knows how many tuples they had
    time_s: float  # on the wall clock

    def told(self) -> str:
        """In a sentence."""
        if not self.before:
            return f"Replica {self.replica!r} is active."
        lost = f"; {self.lost_tuples:,} tuples were not sent" if self.lost_tuples else ""
        lost += f"; up to {self.gone_batches:,} batches are gone with memory" if self.gone_batches else ""
        if self.before == self.replica:
            return f"Replica {self.replica!r} is active again after it was started{lost}."
        return (
            f"Replica {self.replica!r} took over from {self.before!r}, which had been silent for {self.silent_s:.2f} s"
            f"{lost}."
        )
