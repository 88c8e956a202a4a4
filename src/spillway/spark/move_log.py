"""What became of the shards of a run: which moved and why, which hosts batches waited for, what went wrong."""

from collections.abc import Callable, Collection, Mapping, Sequence

from spillway.clock import Clock
from spillway.protocols.placement import Move
from spillway.records.notices import Kind, Notice
from spillway.records.placing import Moved, Waited
from spillway.records.progress import ShardProgress
from spillway.spark.groups import Group
from spillway.spark.handing import Handed

_KEPT_MAX = 100_000


class MoveLog:
    """The log of one run; of everything the last 100,000 are kept. ``notice`` is told at once what cannot wait."""

    def __init__(self, groups: Mapping[str, Group], clock: Clock, notice: Callable[[Notice], None]) -> None:
        self._groups = groups
        self._clock = clock
        self._notice = notice
        self.moves: list[Moved] = []
        self.waits: list[Waited] = []
        self.troubles: list[str] = []
        """What went wrong and cost nothing: hand-overs that failed, hosts that cannot be used."""
        self._recovering: list[Move] = []  # whose shards have not told yet how that went
        self._late: dict[str, float] = {}  # hosts that the batch at hand waits for, and since when
        self._untold: tuple[list[Moved], list[Waited]] = ([], [])

    def trouble(self, sentence: str) -> None:
        self.troubles.append(sentence)
        del self.troubles[:-_KEPT_MAX]

    def lost(self, host: str) -> None:
        """A host has other memory than before."""
        told = f"Host {host} has lost its memory: its shards recover from their backups."
        self._notice(Notice(time_s=self._clock.now_s(), kind=Kind.MEMORY_LOST, told=told, host=host))

    def left(self, moves: Sequence[Move]) -> None:
        """The memory of these shards is given up, and they recover in the batch that comes."""
        self._recovering += moves

    def handed_over(self, move: Move, handed: Handed, *, batch: int) -> None:
        """A shard's memory has come to its new owner."""
        for operator in self._groups[move.shard[0]].at(move.shard[1]):
            self._moved(move, operator, batch=batch, seconds=handed.seconds, size=handed.bytes)

    def late(self, hosts: Collection[str], *, batch: int, living: Collection[str]) -> None:
        """The batch at hand waits for these hosts, and no longer for others."""
        now_s = self._clock.monotonic_s()
        for host in sorted({*hosts} - self._late.keys()):
            self._late[host] = now_s
            told = f"Host {host} shows no executor: batch {batch} waits for it."
            self._notice(Notice(time_s=self._clock.now_s(), kind=Kind.HOST_LATE, told=told, batch=batch, host=host))
        for host in self._late.keys() - {*hosts}:
            waited = Waited(
                batch=batch,
                host=host,
                seconds=now_s - self._late.pop(host),
                came_back=host in living,
                time_s=self._clock.now_s(),
            )
            self.waits.append(waited)
            self._untold[1].append(waited)
        del self.waits[:-_KEPT_MAX]

    def told(self, rows: Sequence[ShardProgress]) -> dict[str, float]:
        """A batch is about to be committed, in which shards did this; the longest recovery of each group that had one.

        How long a recovery took, and how much it brought back, is known from what the shards say.
        """
        by_shard = {(row.operator, row.shard): row for row in rows}
        took_s: dict[str, float] = {}
        for move in self._recovering:
            group, index = move.shard
            for operator in self._groups[group].at(index):
                row = by_shard.get((operator, index))
                if row is not None:
                    self._moved(move, operator, batch=row.batch, seconds=row.recover_s, size=row.state_bytes)
                    took_s[group] = max(took_s.get(group, 0.0), row.recover_s)
        self._recovering.clear()
        return took_s

    def fresh(self) -> tuple[list[Moved], list[Waited]]:
        """Moves and waits since this was asked last."""
        fresh, self._untold = self._untold, ([], [])
        return fresh

    def _moved(self, move: Move, operator: str, *, batch: int, seconds: float, size: int) -> None:
        moved = Moved(
            batch=batch,
            operator=operator,
            shard=move.shard[1],
            source=move.source,
            target=move.to.host,
            epoch=move.to.epoch,
            why=str(move.why),
            handed_over=move.hand_over,
            seconds=seconds,
            bytes=size,
            time_s=self._clock.now_s(),
        )
        self.moves.append(moved)
        self._untold[0].append(moved)
        del self.moves[:-_KEPT_MAX]
