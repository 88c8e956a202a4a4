"""A job that was started again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """One time a job failed and was started again."""

    job: str
    committed: int  # the last batch that counted; -1 if none did
    why: str
    waited_s: float
    time_s: float  # on the wall clock

    def told(self) -> str:
        """In a sentence."""
        return f"Job {self.job!r} failed after batch {self.committed} and was started again: {self.why}"
