"""May this graph go on with what lies in these folders? Asked before anything runs; nothing is changed.

Every task asks the same of the shard it opens, and its word is the last: folders may change while a run is going on. It
comes late, though, from inside of Spark, and one shard does not see what became of the others. So a run looks at all of
it first:

    memory of another meaning                                       refused
    backups of another meaning                                      refused
    memory or backups of another number of shards                   refused, unless they are to be divided anew
    backups that reach beyond the batch the run begins with         refused: they are of an earlier run
    an operator without any state, and state of one that is gone    refused: it seems to be renamed
    shards that have moved between hosts                            refused where nobody knows whereto

What cannot be read is passed over here. Whether it is needed, the shard will know that it belongs to.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from spillway.backup.division import Division, read_division
from spillway.backup.manifest import Manifest, check_ours, find_newest
from spillway.engine.epochs import backups_named, memory_named
from spillway.engine.kernels import needed_backups
from spillway.engine.meaning import check_memory, meaning_of, memory_meaning
from spillway.errors import BackupError, ForeignBackupError, NewerFormatError, StateError
from spillway.files.folders import Folder, LocalFolder, open_folder
from spillway.graph.checked import CheckedGraph
from spillway.operators.operator import Operator
from spillway.state.header import fingerprint_in, looks_new
from spillway.state.meaning import SHARDS, START_ANEW, noted, refusal
from spillway.state.shard import NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    """The backups of one shard."""

    files: Folder
    shard: int  # as the folder says
    shards: int  # how many the operator had
    epoch: int
    manifest: Manifest

    @property
    def batch(self) -> int:
        """The newest batch in them, or -1."""
        return self.manifest.records[-1].batch if self.manifest.records else NONE


def check_resumable(
    graph: CheckedGraph,
    *,
    state: Path | None,
    backups: str | None,
    batch: int,
    rescale: bool = False,
    owners: bool = False,
    rewound: bool = False,
) -> None:
    """Refuse to run ``graph`` from ``batch`` on with state it cannot go on with, in words.

    With ``rescale`` the number of shards may be another, and nothing else (see ``engine.rescaling``). ``owners`` says
    whether the run knows who owns the shards, and so in which epoch each is: otherwise all must be in their first.
    ``rewound`` says that the job was sent back to just before ``batch``: backups of later ones are no longer counted.
    """
    operators = [node for node in graph.operators.values() if isinstance(node, Operator) and node.stateful]
    found = set()
    for operator in operators:
        division = _division(graph, operator, state=state, backups=backups)
        was = shards_found(graph, operator, state=state, backups=backups) if rescale and batch > 0 else None
        before = with_shards(graph, operator, was) if was is not None else graph
        folders = _memory(state, graph, operator.name)
        # What a change left that is not finished lies there still, and goes when it is.
        for folder in folders if division is None or not division.unfinished else ():
            check_memory(folder, operator, memory_meaning(before, operator))
        saved = _backups(backups, graph, operator) if operator.protect.keeps_backups else []
        if not owners and any(one.epoch for one in saved):
            raise StateError(
                f"Operator {operator.name!r} was run on several hosts, and its shards have moved between them: its "
                f"backups in {open_folder(backups or '', graph.name, operator.name).place} say so, and nothing here "
                f"says where they are now. Resume it on Spark, with the folders it had."
            )
        _check_backups(before, operator, saved, backups=backups, batch=batch, rewound=rewound)
        if folders or saved:
            found.add(operator.name)
    if batch > 0:
        for operator in operators:
            if operator.name not in found:
                _check_name(graph, operator, state=state, backups=backups, batch=batch)


def with_shards(graph: CheckedGraph, operator: Operator, shards: int) -> CheckedGraph:
    """The same graph, in which an operator has another number of shards."""
    other = copy.copy(operator)
    other.shards = shards
    return replace(graph, operators={**graph.operators, operator.name: other})


def division_folder(graph: CheckedGraph, operator: Operator, *, state: Path, backups: str | None) -> Folder:
    """Where it is noted by how many shards an operator's state is divided, once that has changed."""
    if operator.protect.keeps_backups:
        return open_folder(needed_backups(operator, backups), graph.name, operator.name)
    return LocalFolder(state / graph.name / operator.name)


def _division(graph: CheckedGraph, operator: Operator, *, state: Path | None, backups: str | None) -> Division | None:
    """What is noted of it."""
    if state is None and not operator.protect.keeps_backups:
        return None
    return read_division(division_folder(graph, operator, state=state or Path(), backups=backups))


def shards_found(graph: CheckedGraph, operator: Operator, *, state: Path | None, backups: str | None) -> int | None:
    """How many shards the state has that lies there and counts; None if there is none, or it does not say."""
    division = _division(graph, operator, state=state, backups=backups)
    if division is not None:
        return division.shards
    for folder in _memory(state, graph, operator.name):
        found = fingerprint_in(folder)
        was = noted(folder, fingerprint_found=found) if found is not None else None
        if was is not None and SHARDS in was:
            return int(was[SHARDS])
    saved = _backups(backups, graph, operator) if operator.protect.keeps_backups else []
    return max(saved, key=lambda shard: shard.batch).shards if saved else None


def manifests_that_count(graph: str, operator: str, *, shards: int, backups: str) -> list[Manifest | None]:
    """The newest manifest of each shard of an operator, as its owner left it; None where there is none."""
    newest: dict[int, _Saved] = {}
    for found in _saved(backups, graph, operator):
        known = newest.get(found.shard)
        if found.shards == shards and not found.manifest.inherits:
            newest[found.shard] = found if known is None or found.epoch > known.epoch else known
    return [newest[shard].manifest if shard in newest else None for shard in range(shards)]


def operators_found(graph: str, *, backups: str) -> dict[str, int]:
    """The operators that have backups, and how many shards those are of that count."""
    found = {}
    for operator in _entries(open_folder(backups, graph)):
        saved = list(_saved(backups, graph, operator))
        if saved:
            division = read_division(open_folder(backups, graph, operator))
            newest = max(saved, key=lambda shard: shard.batch)
            found[operator] = newest.shards if division is None else division.shards
    return found


def _check_backups(
    graph: CheckedGraph, operator: Operator, saved: list[_Saved], *, backups: str | None, batch: int, rewound: bool
) -> None:
    shards = graph.shards_of(operator.name)
    ours = [shard for shard in saved if shard.shards == shards]
    # Beside our own, those of another number of shards are what a run left that nobody will go on with.
    looked_at = ours or saved
    if not looked_at:
        return
    assert backups is not None
    place = open_folder(backups, graph.name, operator.name).place
    newest = max(looked_at, key=lambda shard: shard.batch)
    # The first batch may have been begun before and be run again, but not by another number of shards.
    if (newest.batch > batch and not rewound) or (not ours and batch == 0 and newest.batch >= 0):
        raise BackupError(
            f"Backups in {place} belong to an earlier run of graph {graph.name!r}: operator {operator.name!r} has "
            f"{newest.shards} shards there, up to batch {newest.batch}, and this run begins at batch {batch}. Resume "
            f"that run from where it stopped, name another folder with backups=, or remove this one."
        )
    meaning = meaning_of(graph, operator)
    if not ours and batch > 0:
        was = {**newest.manifest.meaning, SHARDS: str(newest.shards)}
        raise ForeignBackupError(refusal(operator.name, was, meaning, of=f"its backups in {place} were"))
    for own in ours:
        check_ours(own.manifest, own.files, graph=graph.name, operator=operator.name, shard=own.shard, meaning=meaning)


def _check_name(
    graph: CheckedGraph, operator: Operator, *, state: Path | None, backups: str | None, batch: int
) -> None:
    """Refuse to begin an operator without state in mid-run if there is state of one that the graph does not have."""
    strays: list[tuple[str, str]] = []
    if state is not None:
        names = _names(state / graph.name)
        strays += [(name, str(state / graph.name)) for name in names if _memory(state, graph, name)]
    if backups is not None and operator.protect.keeps_backups:
        folder = open_folder(backups, graph.name)
        strays += [(name, folder.place) for name in _entries(folder) if any(_saved(backups, graph.name, name))]
    for name, place in strays:
        if name in graph.operators and graph.operators[name].stateful:
            continue
        raise StateError(
            f"There is state of operator {name!r} in {place}, which graph {graph.name!r} does not have, and none of "
            f"operator {operator.name!r}, though the run is at batch {batch}. If it is the same operator, call it "
            f"{name!r} again; otherwise {START_ANEW}"
        )


def _memory(state: Path | None, graph: CheckedGraph, operator: str) -> list[Path]:
    """The folders of an operator's shards that have memory in them."""
    if state is None:
        return []
    folder = state / graph.name / operator
    shards = [folder / name for name in _names(folder) if memory_named(name)]
    return [shard for shard in shards if not looks_new(shard)]


def _backups(backups: str | None, graph: CheckedGraph, operator: Operator) -> list[_Saved]:
    """The backups of an operator's shards that count, of whatever number of shards, as far as they can be read."""
    if backups is None:
        return []
    division = _division(graph, operator, state=None, backups=backups)
    saved = _saved(backups, graph.name, operator.name)
    return [one for one in saved if division is None or one.shards == division.shards]


def _saved(backups: str, graph: str, operator: str) -> Iterator[_Saved]:
    for name in _entries(open_folder(backups, graph, operator)):
        named = backups_named(name)
        if named is None:
            continue
        files = open_folder(backups, graph, operator, name)
        try:
            manifest = find_newest(files)
        except (ForeignBackupError, NewerFormatError):
            raise
        except (BackupError, OSError):
            continue
        if manifest is not None:
            yield _Saved(files=files, shard=named.shard, shards=named.shards, epoch=named.epoch, manifest=manifest)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def _entries(files: Folder) -> list[str]:
    try:
        return files.names()
    except OSError:
        return []
