"""The suite that every primitive must pass, a user's own subclass of ``Primitive`` included.

``check_primitive`` drives a real shard through a random sequence of moves and compares it, after each, with what
plain Python says it must be. The moves are those of a shard's life (see ``shard``):

    when idle       begin a batch (a staged backup is promoted first), roll the last one back, open the folder
                    anew, lose the memory and recover from the last backup that counts, go back to that backup
                    without losing the memory
    when applying   change the content, commit (with a backup or without), roll back, be killed: the folder is
                    opened anew and found torn

A backup here is a plain dictionary of chunks, as partial as ``heaviest_chunks`` allows. What it holds is found out
by recovering it into another shard, so divergence is checked against its meaning: the distance between the content
and what a recovery would give.

After a failure, call again with the seed it printed: the same moves come again.
"""

import math
import tempfile
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from spillway.seeds import generator
from spillway.state.arrays import Cells, Int64s
from spillway.state.kernels import CHUNK_BYTES
from spillway.state.primitives import Primitive
from spillway.state.shard import NONE, Shard

P = TypeVar("P", bound=Primitive)
Content = float | npt.NDArray[Any] | Mapping[Any, float] | Set[Any]
Distance = Callable[[Content, Content], float]

_CHANGES_MAX = 3  # between two other moves
_STORY_MAX = 12
_TOLERANCE = 1e-9  # sums of the same numbers in another order


def check_primitive(
    declaration: P,
    *,
    change: Callable[[P, np.random.Generator], None],
    content: Callable[[P], Content],
    distance: Distance | None = None,
    seed: int = 0,
    steps: int = 200,
    folder: Path | None = None,
) -> None:
    """Raise AssertionError, naming seed and step, unless the primitive keeps what ``Primitive`` promises.

    ``change`` makes one random change; ``content`` reads all there is, as a number, an array, a dictionary or a set.
    ``distance`` is d(s, b) of two contents, by default that of the declared metric (see ``primitives``).

    Checked after every move, for content ``s`` and for the content ``b`` that a recovery would give:

    * ``divergence() == d(s, b)``; a rollback restores content, divergence and changed chunks exactly;
    * saving ``changed_chunks`` makes ``s == b``; saving ``heaviest_chunks(goal)`` leaves at most ``goal``;
    * another opening of the same folder, as another process has it, sees the same;
    * cells beyond the count are zero.

    >>> from spillway.state import Vector
    >>> check_primitive(
    ...     Vector(100, metric="max"),
    ...     change=lambda vector, random: vector.add(random.integers(100, size=5), random.normal(size=5)),
    ...     content=lambda vector: vector.read(),
    ...     steps=50,
    ... )

    Not covered: processes that are really killed, full or failing file systems, damaged backups.
    """
    metric = declaration.metric
    with tempfile.TemporaryDirectory(prefix="spillway-check-") as temporary:
        life = _Life(
            declaration,
            folder=folder or Path(temporary) / "shard",
            scratch=Path(temporary),
            change=change,
            content=content,
            distance=distance or (lambda s, b: metric_distance(metric, s, b)),
            random=generator(seed, "conformance", declaration.describe()),
        )
        for step in range(steps):
            try:
                life.move()
            except Exception as error:
                story = ", ".join(life.story[-_STORY_MAX:])
                raise AssertionError(
                    f"{declaration.describe()} failed at step {step} of seed {seed}: {error}. The moves that led "
                    f"there: {story}."
                ) from error


def metric_distance(metric: str, s: Content, b: Content) -> float:
    """d(s, b), slowly: the definition in ``primitives`` word for word.

    >>> metric_distance("l1", {"a": 3, "b": 1}, {"a": 1}), metric_distance("keys", {"a", "b"}, {"a"})
    (3.0, 1.0)
    """
    if metric == "keys":
        assert isinstance(s, Mapping | Set) and isinstance(b, Mapping | Set)
        return float(len(set(s) - set(b)))
    gaps = [_gap(x, y) for x, y in _pairs(s, b)]
    if metric == "max":
        return max(gaps, default=0.0)
    return math.fsum(gaps) if metric == "l1" else math.sqrt(math.fsum(gap * gap for gap in gaps))


def _pairs(s: Content, b: Content) -> list[tuple[Any, Any]]:
    if isinstance(s, Mapping) and isinstance(b, Mapping):
        return [(s.get(key, 0), b.get(key, 0)) for key in {*s, *b}]
    assert not isinstance(s, Mapping | Set) and not isinstance(b, Mapping | Set), "a set has the metric keys"
    return list(zip(np.ravel(s).tolist(), np.ravel(b).tolist(), strict=True))


def _gap(x: float, y: float) -> float:
    if x == y or (math.isnan(x) and math.isnan(y)):
        return 0.0
    gap = abs(float(x - y))  # an exact difference first: Python's integers have no end
    return math.inf if math.isnan(gap) else gap


@dataclass(slots=True)
class _Backup:
    """What a store would hold of a shard: for each array its count, and its chunks by number."""

    version: int = NONE
    counts: list[int] = field(default_factory=list)
    chunks: list[dict[int, bytes]] = field(default_factory=list)

    def with_chunks(self, shard: Shard, ids: list[Int64s], version: int) -> "_Backup":
        """This backup with the given chunks of each array laid over it."""
        chunks = []
        earlier = self.chunks or [{} for _ in shard.arrays]
        for array, wanted, parts in zip(shard.arrays, ids, earlier, strict=True):
            saved = (row.tobytes() for row in array.payload(wanted))
            chunks.append(parts | dict(zip(wanted.tolist(), saved, strict=True)))
        return _Backup(version=version, counts=[array.count for array in shard.arrays], chunks=chunks)

    def recover_into(self, shard: Shard) -> None:
        shard.reset()
        if self.chunks:
            valid_counts = []
            for array, count, parts in zip(shard.arrays, self.counts, self.chunks, strict=True):
                ids = np.array(sorted(parts), np.int64)
                rows = np.frombuffer(b"".join(parts[chunk] for chunk in ids.tolist()), np.uint8)
                array.load(ids, rows.reshape(-1, CHUNK_BYTES), count)
                valid_counts.append(np.full(len(array.all_chunks()), count, np.int64))
            shard.mend(valid_counts)
        shard.adopt()
        shard.recovered(version=self.version, backup_version=self.version, failures=0, time_s=0)


@dataclass(frozen=True, slots=True)
class _Look:
    """All that must come back after a rollback, and must look the same to another process."""

    content: Content
    divergence: float
    changed: tuple[tuple[int, ...], ...]

    def compare(self, other: "_Look", what: str) -> None:
        if not _same(self.content, other.content):
            _fail(f"{what}: the content is another")
        if self.divergence != other.divergence:
            _fail(f"{what}: the divergence is {other.divergence!r}, not {self.divergence!r}")
        if self.changed != other.changed:
            _fail(f"{what}: the changed chunks are {other.changed}, not {self.changed}")


class _Life:
    """One shard, driven through random moves, and what it must be after each."""

    def __init__(
        self,
        declaration: Any,
        *,
        folder: Path,
        scratch: Path,
        change: Callable[[Any, np.random.Generator], None],
        content: Callable[[Any], Content],
        distance: Distance,
        random: np.random.Generator,
    ) -> None:
        self.story: list[str] = []
        self._declaration = declaration
        self._folder = folder
        self._change = change
        self._content = content
        self._distance = distance
        self._random = random
        self._shard, self._primitive = self._open(folder)
        self._other = self._open(folder)
        self._recovered = self._open(scratch / "recovered")
        self._backup = _Backup()  # the last one that counts
        self._backup_content = self._content_of(self._backup)
        self._staged: tuple[_Backup, list[float]] | None = None  # and what each array may differ by once it counts
        self._before = self._now = self._look(self._shard, self._primitive)

    def move(self) -> None:
        """One random move that is legal now."""
        if self._shard.torn:
            moves = [self._make_changes, self._commit, self._roll_back, self._be_killed]
            chances = [0.4, 0.4, 0.1, 0.1]
        else:
            moves = [self._begin, self._open_anew, self._lose_memory, self._roll_back, self._revert]
            can_roll_back, can_revert = self._shard.can_roll_back, self._shard.can_revert
            chances = [0.65, 0.1, 0.05, 0.15 if can_roll_back else 0.0, 0.05 if can_revert else 0.0]
        chosen = self._random.choice(len(moves), p=np.array(chances) / sum(chances))
        self.story.append(moves[chosen].__name__.strip("_").replace("_", " "))
        if moves[chosen] in (self._open_anew, self._be_killed):
            self._shard, self._primitive = self._open(self._folder)
        with self._shard.lock():
            moves[chosen]()
        self._check_other()

    # -- moves when idle -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        shard = self._shard
        if self._staged is not None:
            self.story.append("promote")
            backup, goals = self._staged
            shard.promote()
            self._backup, self._staged = backup, None
            self._backup_content = self._content_of(backup)
            for array, goal in zip(shard.arrays, goals, strict=True):
                if not array.divergence() <= goal * (1 + _TOLERANCE):
                    _fail(f"{array.name} was left {array.divergence()} from its backup where {goal} was allowed")
        shard.begin(shard.version + 1)
        self._before = self._check(settled=True)

    def _open_anew(self) -> None:
        self._now.compare(self._check(settled=True), "opened anew")

    def _lose_memory(self) -> None:
        self._staged = None
        self._backup.recover_into(self._shard)
        self._check_is_backup("recovered")

    def _revert(self) -> None:
        self._staged = None
        version = self._backup.version
        self._shard.revert(seq=version, window=None, forgotten=0, failed_at=None)
        self._shard.recovered(version=version, backup_version=version, failures=0, time_s=0)
        self._check_is_backup("gone back to")

    def _check_is_backup(self, what: str) -> None:
        now = self._check(settled=True)
        if not _same(now.content, self._backup_content) or now.divergence or any(now.changed):
            _fail(f"what was {what} is not what the backup holds")

    # -- moves when applying -------------------------------------------------------------------------------------

    def _make_changes(self) -> None:
        for _ in range(self._random.integers(1, _CHANGES_MAX + 1)):
            self._change(self._primitive, self._random)
        self._check(settled=False)

    def _commit(self) -> None:
        shard = self._shard
        shard.settle(seq=shard.version + 1, tuples=1)
        self._check(settled=True)
        if self._random.random() < 0.5:
            self._stage()
        shard.commit()
        self._now = self._check(settled=True)

    def _stage(self) -> None:
        """Back up the whole, what changed, or as much as leaves a divergence of at most a goal."""
        shard = self._shard
        kind = self._random.choice(["whole", "changed", "heaviest", "given up"])
        self.story.append(f"back up {kind}")
        goals = [0.0 for _ in shard.arrays]
        if kind == "heaviest":
            # One goal for all, as a backup has it: what one array leaves out another may have to leave out too.
            goal = shard.divergence() * float(self._random.random())
            goals = [goal for _ in shard.arrays]
            ids = [array.heaviest_chunks(goal) for array in shard.arrays]
        elif kind == "changed":
            ids = [array.changed_chunks() for array in shard.arrays]
        else:
            ids = [array.all_chunks() for array in shard.arrays]
        batch = shard.version + 1
        shard.announce(batch, time_s=0)
        shard.stage(ids)
        if kind == "given up":
            shard.unstage()
        else:
            self._staged = self._backup.with_chunks(shard, ids, batch), goals

    def _be_killed(self) -> None:
        if not self._shard.torn:
            _fail("a batch cut short does not look torn")
        self._roll_back()

    # -- both ----------------------------------------------------------------------------------------------------

    def _roll_back(self) -> None:
        self._staged = None
        self._shard.rollback()
        self._before.compare(self._check(settled=True), "rolled back")

    # -- checks --------------------------------------------------------------------------------------------------

    def _check(self, *, settled: bool) -> _Look:
        look = self._look(self._shard, self._primitive)
        for array in self._shard.arrays:
            if isinstance(array, Cells) and array.spare.any():
                _fail(f"{array.name} has cells beyond its count that are not zero")
        expected = self._distance(look.content, self._backup_content)
        if settled and not math.isclose(look.divergence, expected, rel_tol=_TOLERANCE, abs_tol=0.0):
            _fail(f"the divergence is {look.divergence!r}, and {expected!r} by its definition")
        self._now = look
        return look

    def _check_other(self) -> None:
        shard, primitive = self._other
        with shard.lock():
            self._now.compare(self._look(shard, primitive), "seen by another process")

    def _look(self, shard: Shard, primitive: Any) -> _Look:
        return _Look(
            content=_copied(self._content(primitive)),
            divergence=primitive.divergence(),
            changed=tuple(tuple(array.changed_chunks().tolist()) for array in shard.arrays),
        )

    def _content_of(self, backup: _Backup) -> Content:
        shard, primitive = self._recovered
        with shard.lock():
            backup.recover_into(shard)
            return _copied(self._content(primitive))

    def _open(self, folder: Path) -> tuple[Shard, Any]:
        shard = Shard(folder, fingerprint=0, tracked=True)
        return shard, self._declaration.bind(shard, "checked")


def _same(a: Content, b: Content) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_gap(value, b[key]) == 0 for key, value in a.items())
    if isinstance(a, Set) or isinstance(b, Set):
        return a == b
    return bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True))


def _copied(content: Content) -> Content:
    """Content that does not change with live memory."""
    if isinstance(content, Mapping):
        return dict(content)
    return set(content) if isinstance(content, Set) else np.array(content)


def _fail(sentence: str) -> NoReturn:
    raise AssertionError(sentence)
