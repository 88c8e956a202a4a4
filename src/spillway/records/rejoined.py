"""That a replica was started with what is not its own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined:
    """One time a replica of a group went on with the memory of a peer, or with none."""

    job: str  # the group
    replica: str
    start: str  # "peer" or "nothing"
    peer: str  # whose memory it has, or behind whom it goes on; empty if nobody had come further
    committed: int  # the batch that it had come to itself; -1 if none
    behind: int  # the batch that it goes on behind
    let_go: bool  # whether it had to, because it was away for so long that nothing was kept for it
    time_s: float  # on the wall clock

    def told(self) -> str:
        """In a sentence.

        >>> Rejoined(
        ...     job="m", replica="m-0", start="peer", peer="m-1", committed=3, behind=9, let_go=True, time_s=0.0
        ... ).told()
        "Replica 'm-0' goes on behind batch 9 with the memory of 'm-1', because it was let go after batch 3."
        """
        state = f"the memory of {self.peer!r}" if self.start == "peer" else "empty state"
        came = f"batch {self.committed}" if self.committed >= 0 else "no batch"
        why = f", because it was let go after {came}" if self.let_go else f"; it had come to {came} itself"
        return f"Replica {self.replica!r} goes on behind batch {self.behind} with {state}{why}."
