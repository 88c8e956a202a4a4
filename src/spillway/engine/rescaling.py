"""Another number of shards for the state of a stopped graph: divided anew, exactly, and killed anywhere, whole.

Theory of operation
-------------------
A run begins with batch N, and an operator has n shards where the graph has m. Each of the n is brought to N-1 as a task
for N would bring it there: what an attempt of N applied is undone, and memory that is gone is recovered, with its
backups, its kept items, its loss and its failure. Then

    1  note that n counts (``backup.division``), and remove what an earlier try left of m
    2  make m shards in memory, aside, each with a fresh whole backup of its own
    3  note that m counts                                                           from here on the new division counts
    4  put the new memory in the old one's place, remove the old backups, items and notes; note that this is finished

Killed before 3, the division by n is as it was: nothing of it was changed but what any start of a run changes. Killed
after 3, whoever starts next finishes 4, which can be repeated: memory is told apart by what it says of itself. If
memory is lost between, the new shards recover from backups that lack nothing.

What goes where. A key goes to the shard that the exchange sends its tuples to, with all that tables have of it. Numbers
that add up over shards cannot be divided, but whole shards can be put together: if m divides n, all tuples of shard s
would have come to shard s mod m, whether they are shared out by hash or by number. The rest is the operator's to fill
in (``Operator.rescaled``). Of an operator that says nothing of its tables the keys are asked: if each lies in the shard
that it belongs to, and chance would have it so less than once in 2^64, they are the operator's key.

The ``seq`` of a new shard is the highest of the old ones. One that puts something out in a batch without tuples may
then do so under a higher number than it would have had.

What the new shards promise, and why the bound holds over the whole life, is in ``backup.thresholds``.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.backup.division import Division, read_division, write_division
from spillway.backup.manifest import Standing
from spillway.backup.reach import Reach, Reached
from spillway.backup.thresholds import failures_divided
from spillway.clock import Clock
from spillway.engine.epochs import backup_folder, items_folder, shard_folder
from spillway.engine.exchange import Placing
from spillway.engine.feedback import Mailbox
from spillway.engine.meaning import memory_meaning
from spillway.engine.opened import OpenOperator
from spillway.engine.resuming import division_folder, shards_found, with_shards
from spillway.errors import RunError, StateError
from spillway.files.durable import move_folder
from spillway.files.folders import open_folder
from spillway.graph.checked import CheckedGraph
from spillway.graph.windows import Decaying
from spillway.operators.operator import Operator
from spillway.records.rescaled import Rescaled
from spillway.state.dividing import add_up, adds_up, copy_entries, has_keys, held_keys
from spillway.state.hashing import shard_of
from spillway.state.header import fingerprint_in
from spillway.state.meaning import START_ANEW, fingerprint

ASIDE = ".rescaling"  # below the state folder; no graph's name begins like that

Int32s = npt.NDArray[np.int32]

_EVIDENCE_BITS = 64
_MANY = 1 << 30  # more shards than there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a run keeps its state, and what is noted of it."""

    state: Path
    backups: str | None
    reach: Reach
    clock: Clock | None = None


def at_start(graph: CheckedGraph, places: Places, *, batch: int, wanted: bool, several: bool) -> tuple[Rescaled, ...]:
    """What is done before a run begins: complete what was begun, and divide anew if that is ``wanted``."""
    if not several:
        return rescale(graph, places, batch=batch) if wanted else finish(graph, places)
    if wanted:
        raise RunError(
            "State that is on several hosts cannot be divided anew yet: resume the run with the numbers of shards it "
            "had."
        )
    return ()


def rescale(graph: CheckedGraph, places: Places, *, batch: int) -> tuple[Rescaled, ...]:
    """Divide anew the state of every operator that has another number of shards than ``graph`` wants, in its turn."""
    done = finish(graph, places)
    changes = []
    for operator in _stateful(graph):
        was = shards_found(graph, operator, state=places.state, backups=places.backups)
        if was is not None and was != graph.shards_of(operator.name):
            changes.append(_Change(graph, operator, places, was=was, batch=batch))
    for change in changes:
        change.check_declared()
    for change in changes:
        change.make()
    return done + finish(graph, places)


def finish(graph: CheckedGraph, places: Places) -> tuple[Rescaled, ...]:
    """Complete what a start before this one was killed in the middle of; tells what is complete now."""
    done = []
    for operator in _stateful(graph):
        note = division_folder(graph, operator, state=places.state, backups=places.backups)
        division = read_division(note)
        if division is None or not division.unfinished or division.change is None:
            continue
        _put_in_place(with_shards(graph, operator, division.shards), operator, places, division.change)
        write_division(note, replace(division, unfinished=False))
        done.append(division.change)
    shutil.rmtree(places.state / ASIDE, ignore_errors=True)
    return tuple(done)


class _Change:
    """One operator on its way from ``was`` shards to another number."""

    def __init__(self, graph: CheckedGraph, operator: Operator, places: Places, *, was: int, batch: int) -> None:
        self._graph = graph
        self._operator = operator
        self._places = places
        self._was, self._now = was, graph.shards_of(operator.name)
        self._batch = batch
        self._note = division_folder(graph, operator, state=places.state, backups=places.backups)
        own = type(operator).rescaled is not Operator.rescaled
        declared = (*operator.state_by_key, *operator.state_added_up)
        self._undeclared = [] if own else [name for name in operator.state() if name not in declared]

    def check_declared(self) -> None:
        """Refuse what cannot be divided anew whatever it contains; nothing has changed then."""
        operator, state = self._operator, self._operator.state()
        hashed = type(operator).sharding_hashes is not Operator.sharding_hashes
        for name in (*operator.state_by_key, *self._undeclared):
            if not has_keys(state[name]):
                raise self._refused(
                    f"nobody said what becomes of its state {name!r}, {state[name].describe()}: name it in "
                    f"state_added_up if only the sum over shards counts, or see to it in rescaled()"
                )
            if len(operator.key) != 1 and not (hashed and operator.key):
                divided = f"the columns {', '.join(operator.key)}" if operator.key else "number"
                raise self._refused(f"its tuples are shared out by {divided}, and its state {name!r} by one key")
        for name in operator.state_added_up:
            if not adds_up(state[name]):
                raise self._refused(f"nothing says how to add up its state {name!r}, {state[name].describe()}")
            if self._was % self._now:
                fitting = [str(shards) for shards in range(1, self._was) if self._was % shards == 0]
                way = f"it can be put together into {' or '.join(fitting)}" if fitting else "only put together"
                raise self._refused(f"its state {name!r} adds up over shards and cannot be divided: {way}")

    def make(self) -> None:
        """Steps 1 to 3; from the last one on the new division counts."""
        graph_before = with_shards(self._graph, self._operator, self._was)
        with ExitStack() as held:
            old = [self._open(graph_before, index, held) for index in range(self._was)]
            for opened in old:
                opened.keeper.begin(self._batch)
                held.callback(opened.shard.rollback)  # nothing was applied
            places = self._divide(old)
            standing, failures = self._promise(old)
            write_division(self._note, Division(shards=self._was))
            _remove_backups(self._operator, self._graph, self._places, shards=self._now)
            shutil.rmtree(self._aside(), ignore_errors=True)
            for index in range(self._now):
                opened = self._open(self._graph, index, held, aside=True)
                opened.keeper.divides.be_divided(
                    self._batch,
                    fill=partial(self._fill, opened.operator, index, old, places),
                    seq=max((one.shard.seq for one in old if one.shard.seq is not None), default=None),
                    standing=standing,
                    failures=failures,
                )
            change = self._told(old, failures=failures)
            write_division(self._note, Division(shards=self._now, unfinished=True, change=change))

    def _open(self, graph: CheckedGraph, index: int, held: ExitStack, *, aside: bool = False) -> OpenOperator:
        opened = OpenOperator(
            _operator(graph, self._operator.name),
            graph=graph,
            index=index,
            state=self._places.state / ASIDE if aside else self._places.state,
            backups=self._places.backups,
            clock=self._places.clock,
            reached=self._places.reach.of,
        )
        held.callback(opened.close)
        held.enter_context(opened.shard.lock())
        return opened

    def _aside(self) -> Path:
        return self._places.state / ASIDE / self._graph.name / self._operator.name

    def _divide(self, old: Sequence[OpenOperator]) -> dict[str, list[Int32s]]:
        """For each state by key the new shard of every key, per old shard; refused where keys lie in a wrong one."""
        divided = {}
        for name in (*self._operator.state_by_key, *self._undeclared):
            keys = [_keys(opened.operator, name) for opened in old]
            for index, held in enumerate(keys):
                if (self._shards_of(name, held, self._was) != index).any():
                    raise self._refused(f"its state {name!r} has keys that are not the key its tuples are divided by")
            count = sum(map(len, keys))
            if name in self._undeclared and count and count * math.log2(self._was) < _EVIDENCE_BITS:
                raise self._refused(
                    f"nothing says that the keys of its state {name!r} are the key its tuples are divided by, and "
                    f"{count} keys in {self._was} shards do not prove it. If they are, say state_by_key = ({name!r},) "
                    f"in its class"
                )
            divided[name] = [self._shards_of(name, held, self._now) for held in keys]
        return divided

    def _shards_of(self, name: str, keys: pa.Array, shards: int) -> Int32s:
        """The shard of each key, where the exchange would send its tuples."""
        hashes = self._operator.sharding_hashes(name, keys)
        if hashes is not None:
            return shard_of(hashes, shards)
        (column,) = self._operator.key
        edge = self._graph.into(self._operator.name)[0]
        kind = self._graph.schemas[edge.stream].field(column).type
        try:
            if pa.types.is_string(kind) != pa.types.is_string(keys.type):
                raise pa.ArrowInvalid(f"they are of {keys.type}, and it is {kind}")
            batch = pa.RecordBatch.from_arrays([keys.cast(kind)], names=[column])
        except pa.ArrowInvalid as error:
            raise self._refused(f"its state {name!r} has keys that are none of column {column!r}: {error}") from error
        return Placing(key=(column,), tasks=shards).places(batch)

    def _promise(self, old: Sequence[OpenOperator]) -> tuple[Standing, int]:
        """Where the windows of every new shard stand, and with how many failures it begins."""
        operator, shards = self._operator, [opened.shard for opened in old]
        counted = [shard.failures - shard.forgotten for shard in shards]
        worst_of = operator.shards_adding_up(_MANY)
        bounded = operator.protect.allows.theta > 0 and not isinstance(operator.windowing, Decaying)
        count = failures_divided(
            counted,
            worst_of=worst_of if bounded and worst_of < _MANY else 0,
            added_up=bool(operator.state_added_up),
        )
        if count is None:
            raise self._refused(
                f"its shards have lost memory {sum(counted)} times, and what is added up could be off by more than "
                f"{operator.protect.describe()} allows"
            )
        failures = max(count, *(shard.failures for shard in shards))
        felt = [shard.failed_at for shard in shards if shard.failures > shard.forgotten]
        known = [place for place in felt if place is not None]
        standing = Standing(
            window=max((shard.window for shard in shards if shard.window is not None), default=None),
            forgotten=failures - count,
            failed_at=max(known) if known and len(known) == len(felt) else None,  # else the next tuple tells
        )
        return standing, failures

    def _fill(
        self, operator: Operator, index: int, old: Sequence[OpenOperator], places: Mapping[str, list[Int32s]]
    ) -> None:
        """Put into a new shard what belongs there."""
        state = operator.opened_state
        for name, divided in places.items():
            for opened, shards in zip(old, divided, strict=True):
                positions = np.flatnonzero(shards == index)
                if positions.size:
                    copy_entries(opened.operator.opened_state[name], state[name], positions)
        for name in self._operator.state_added_up:
            for opened in old[index :: self._now]:
                add_up(opened.operator.opened_state[name], state[name])
        operator.rescaled([opened.operator for opened in old], shard=index, shards=self._now)

    def _told(self, old: Sequence[OpenOperator], *, failures: int) -> Rescaled:
        losses = {index: opened.keeper.loss for index, opened in enumerate(old) if opened.keeper.loss is not None}
        return Rescaled(
            operator=self._operator.name,
            was=self._was,
            now=self._now,
            batch=self._batch,
            failures=failures,
            lost=tuple(losses),
            loss_max=math.fsum(loss.divergence_max for loss in losses.values()),
            damage="; ".join(loss.damage for loss in losses.values() if loss.damage),
        )

    def _refused(self, why: str) -> StateError:
        return StateError(
            f"Operator {self._operator.name!r} had {self._was} shards and is to have {self._now}, but {why}. Run it "
            f"with {self._was} shards, or {START_ANEW}"
        )


def _put_in_place(graph: CheckedGraph, operator: Operator, places: Places, change: Rescaled) -> None:
    """Step 4, which may have been cut short before: the new memory for the old one, and nothing else of the old."""
    name = operator.name
    ours = fingerprint(memory_meaning(graph, _operator(graph, name)))
    for index in range(max(change.was, change.now)):
        folder = shard_folder(places.state, graph.name, name, index)
        if folder.is_dir() and fingerprint_in(folder) != ours:
            shutil.rmtree(folder)
        new = shard_folder(places.state / ASIDE, graph.name, name, index)
        if index < change.now and new.is_dir() and not folder.exists():
            move_folder(new, folder)
    _remove_backups(operator, graph, places, shards=change.was)
    if operator.protect.keeps_items and places.backups is not None:
        for index in range(change.now, change.was):
            open_folder(places.backups, graph.name, name, items_folder(index)).remove_all()
    Mailbox(graph, state=places.state, backups=places.backups).divided_anew(name, batch=change.batch, was=change.was)
    reached = Reached(failures=change.failures, backups=(change.batch - 1,) if operator.protect.keeps_backups else ())
    places.reach.divided_anew(name, shards=change.now, reached=reached)


def _remove_backups(operator: Operator, graph: CheckedGraph, places: Places, *, shards: int) -> None:
    """Remove all backups of a division that does not count."""
    if operator.protect.keeps_backups and places.backups is not None:
        for index in range(shards):
            folder = backup_folder(index, shards=shards)
            open_folder(places.backups, graph.name, operator.name, folder).remove_all()


def _keys(operator: Operator, name: str) -> pa.Array:
    keys = held_keys(operator.opened_state[name])
    assert keys is not None
    return keys


def _stateful(graph: CheckedGraph) -> list[Operator]:
    return [node for node in graph.operators.values() if isinstance(node, Operator) and node.stateful]


def _operator(graph: CheckedGraph, name: str) -> Operator:
    operator = graph.operators[name]
    assert isinstance(operator, Operator)
    return operator
