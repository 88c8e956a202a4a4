"""A replica that is started: how far it and its peers have come, and a peer's memory and logs made its own.

``protocols.restarting`` decides; here is what is done about it.

*A peer's memory* is copied while the peer is at work. All of its shards are held by their locks at once, as tasks hold
them while they apply a batch, and then it is read how far it has come: every shard has that batch, or the next one,
torn or whole, with the undo of it. Whoever begins that next batch rolls it back, as after any attempt that did not
count. So the copy is of one batch, and the peer has waited no longer than copying took.

*In which order.* The copy is made beside, and put in place when it is whole: memory, then logs. Then whoever drives the
batches notes that it goes on behind that batch (``Home.go_on``), and backups of its own, which are of before, are
removed last: until then they and its notes agree. Whoever is killed in between finds memory that is not whole, of a
batch that does not count, and starts anew. The first batch finds memory without backups, and makes them.

*Logs* begin where the peer's do, with what readers may still want of them and what they have said.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from spillway.clock import Clock, SystemClock
from spillway.engine.epochs import backup_folder, items_folder, shard_folder
from spillway.engine.feedback import FOLDER as FEEDBACK
from spillway.engine.job_logs import JobLogs
from spillway.engine.meaning import memory_meaning
from spillway.engine.memory_stream import Copy, UnfitError, data_of, messages
from spillway.engine.seat import Seat
from spillway.errors import BackupError, StateError
from spillway.files.durable import UNFINISHED, move_folder, remove_folder
from spillway.files.folders import open_folder
from spillway.graph.checked import CheckedGraph
from spillway.graph.replicas import Member
from spillway.operators.operator import Operator
from spillway.protocols.restarting import Standing, Start, decide
from spillway.records.rejoined import Rejoined
from spillway.state.folders import wipe
from spillway.state.header import looks_new, rename_in, version_in
from spillway.state.locks import holding, lock_of
from spillway.state.meaning import fingerprint, note
from spillway.state.memory import memory_error
from spillway.state.shard import NONE

HELD_S_MAX = 30.0
"""How long a shard of a peer is waited for."""

_COMING = f"{UNFINISHED}from-peer"


_LAST = NONE - 1  # no batch is that old


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What came of starting a replica."""

    behind: int = _LAST  # the batch that it goes on behind, if it can
    rejoined: Rejoined | None = None  # if not with what was its own

    @property
    def waits(self) -> bool:
        """Whether it has to wait for a peer to come further."""
        return self.behind == _LAST


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where a replica has what is its own. ``committed`` tells the last batch that counts for it, at any moment."""

    name: str
    graph: CheckedGraph
    state: Path
    backups: str | None
    logs: JobLogs
    committed: Callable[[], int]
    go_on: Callable[[str, int], None] = lambda peer, behind: None  # make it count that it goes on where a peer is

    def shards(self) -> Iterator[tuple[Operator, int, Path]]:
        """All shards, and where the memory of each is."""
        for name, operator in self.graph.operators.items():
            if operator.stateful and isinstance(operator, Operator):
                for index in range(self.graph.shards_of(name)):
                    yield operator, index, shard_folder(self.state, self.graph.name, name, index)

    def standing(self) -> Standing:
        """How far it has come, and whether memory is what it should be then."""
        committed = self.committed()
        whole = all(version in (committed, committed + 1) for version in self.versions())
        return Standing(committed=committed, whole=whole)

    def versions(self) -> list[int]:
        """The batch that the memory of each shard is after; -2 if it is not complete."""
        found = [NONE if looks_new(folder) else version_in(folder) for _, _, folder in self.shards()]
        return [_LAST if version is None else version for version in found]

    @property
    def feedback(self) -> Path:
        """Where it lies in memory."""
        return self.state / self.graph.name / FEEDBACK


def begin(member: Member, own: Home, peers: Mapping[str, Home], *, seat: Seat, hopeful: bool, clock: Clock) -> Begun:
    """Have a replica be where it is to go on, if it can; one that was let go returns by that."""
    seated = seat.newest()
    if own.name in seated.missing:
        own.logs.be_there()  # a copy may take longer than one that is not there is waited for
    if own.name in seated.away and not seat.add(seated.returns(own.name)):
        return Begun()  # somebody else has added something: next time
    present = {name: peer for name, peer in peers.items() if name not in seated.missing}
    begun = _begin(member, own, present, let_go=own.name in seated.missing, hopeful=hopeful, clock=clock)
    while not begun.waits and own.name in (seated := seat.newest()).returning:
        seat.add(seated.returned(own.name))
    return begun


def _begin(member: Member, own: Home, peers: Mapping[str, Home], *, let_go: bool, hopeful: bool, clock: Clock) -> Begun:
    standing = own.standing()
    standings = {name: peer.standing() for name, peer in peers.items()}
    decided = decide(member.group.restart, standing, standings, let_go=let_go, hopeful=hopeful)
    behind = standing.committed
    match decided.start:
        case Start.WAIT:
            return Begun()
        case Start.OWN:
            if any(version > behind + 1 for version in own.versions()):
                wipe(own.state)  # it was killed while it took a peer's memory, and no peer is left
            return Begun(behind=behind)
        case Start.PEER:
            behind = take_memory(own, peers[decided.peer])
        case Start.NOTHING:
            wipe(own.state)
            behind = standings[decided.peer].committed if decided.peer else behind
    if decided.peer:
        own.logs.begin_as(peers[decided.peer].logs, behind)
        own.go_on(decided.peer, behind)
    _forget_backups(own)
    return Begun(
        behind=behind,
        rejoined=Rejoined(
            job=member.job,
            replica=own.name,
            start=decided.start,
            peer=decided.peer,
            committed=standing.committed,
            behind=behind,
            let_go=let_go,
            time_s=clock.now_s(),
        ),
    )


def take_memory(own: Home, peer: Home) -> int:
    """Have the memory of a peer, as it is after some batch, in place of one's own; that batch.

    Raises StateError if the peer has not all of it, or is at work on a shard for too long; then all is as it was.
    """
    coming = own.state / _COMING
    shutil.rmtree(coming, ignore_errors=True)  # whoever was killed left it
    try:
        batch = _copy(own, peer, coming)
        for operator, index, folder in own.shards():
            with holding(lock_of(folder), seconds_max=HELD_S_MAX):
                remove_folder(folder)
                move_folder(coming / operator.name / str(index), folder)
        shutil.rmtree(own.feedback, ignore_errors=True)
        if (coming / FEEDBACK).exists():
            move_folder(coming / FEEDBACK, own.feedback)
    except FileNotFoundError as error:
        raise _unfit(peer, "lost memory while that was copied") from error
    except UnfitError as error:
        raise _unfit(peer, f"has memory that cannot be copied ({error})") from error
    except OSError as error:
        raise memory_error(coming, error) from error
    finally:
        shutil.rmtree(coming, ignore_errors=True)
    return batch


def _forget_backups(own: Home) -> None:
    """Remove backups of before, which memory does not follow from."""
    for operator, index, _ in own.shards():
        if operator.protect.keeps_backups and own.backups is not None:
            shards = own.graph.shards_of(operator.name)
            for folder in (backup_folder(index, shards=shards), items_folder(index)):
                try:
                    open_folder(own.backups, own.graph.name, operator.name, folder).remove_all()
                except OSError as error:
                    raise BackupError(
                        f"Replica {own.name!r} goes on with the memory of another, and its backups of before, in "
                        f"{own.backups}, cannot be removed ({error.strerror or error}). See to that folder."
                    ) from error


def _copy(own: Home, peer: Home, coming: Path) -> int:
    """A copy of all memory of a peer, with the names of one's own, in a folder beside; the batch that it is after."""
    with ExitStack() as held:
        for _, _, folder in peer.shards():
            if looks_new(folder):
                raise _unfit(peer, "has no memory")
            held.enter_context(holding(lock_of(folder), seconds_max=HELD_S_MAX))
        standing = peer.standing()
        if not standing.whole:
            raise _unfit(peer, f"has not got all memory of batch {standing.committed}")
        for (operator, index, folder), (_, _, source) in zip(own.shards(), peer.shards(), strict=True):
            to = coming / operator.name / str(index)
            to.mkdir(parents=True, mode=0o700)
            folder.parent.mkdir(parents=True, exist_ok=True)
            copy = Copy(to)
            try:
                for message in messages(source, clock=SystemClock()):
                    copy.take(message.head, data_of(message.batch()))
                copy.finish()
            finally:
                copy.close()
            meaning = memory_meaning(own.graph, operator)
            note(to, meaning)
            rename_in(to, fingerprint=fingerprint(meaning))
        if peer.feedback.exists():
            shutil.copytree(peer.feedback, coming / FEEDBACK)
        return standing.committed


def _unfit(peer: Home, why: str) -> StateError:
    return StateError(f"Replica {peer.name!r} {why}, so no other can start from it just now.")
