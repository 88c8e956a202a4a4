"""What the state of an operator in a graph means, and memory that is opened with that meaning."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spillway.errors import StateError
from spillway.graph.checked import CheckedGraph
from spillway.operators.operator import Operator
from spillway.state.header import fingerprint_in, looks_new
from spillway.state.meaning import BACKUPS, SHARDS, START_ANEW, TYPE, Meaning, fingerprint, note, noted, refusal


def meaning_of(graph: CheckedGraph, operator: Operator) -> dict[str, str]:
    """What the state of an operator in a graph means: what the operator says, its shards, the types of its columns."""
    own = operator.meaning()
    columns = {*operator.key, *_texts(operator.parameter_values())}
    if operator.windowing is not None and operator.windowing.column is not None:
        columns.add(operator.windowing.column)
    found: dict[str, dict[str, None]] = {}
    for edge in graph.into(operator.name):
        for field in graph.schemas[edge.stream]:
            if field.name in columns:
                found.setdefault(field.name, {})[str(field.type)] = None
    types = {f"{TYPE}{name!r}": " and ".join(kinds) for name, kinds in sorted(found.items())}
    return {SHARDS: str(graph.shards_of(operator.name)), **own, **types}


def memory_meaning(graph: CheckedGraph, operator: Operator) -> dict[str, str]:
    """What a shard's memory means: it is also laid out for backups, or for none."""
    kept = "kept" if operator.protect.keeps_backups else "not kept"
    return {"graph": graph.name, "operator": operator.name, BACKUPS: kept, **meaning_of(graph, operator)}


def check_memory(folder: Path, operator: Operator, meaning: Meaning) -> None:
    """Refuse memory that was written with another meaning; it is left as it is."""
    found = fingerprint_in(folder)
    if found is None or found == fingerprint(meaning):
        return
    was = noted(folder, fingerprint_found=found)
    if was is not None and {**was, BACKUPS: ""} == {**meaning, BACKUPS: ""}:
        kept = operator.protect.keeps_backups
        raise StateError(
            f"Operator {operator.name!r} was protected {'without' if kept else 'with'} backups and is to be protected "
            f"by {operator.protect.describe()}, which {'needs them' if kept else 'keeps none'}: its memory in {folder} "
            f"is laid out for the one and not for the other. Protect it as it was, or {START_ANEW}"
        )
    raise StateError(refusal(operator.name, was, meaning, of=f"its memory in {folder} was"))


def enter_memory(folder: Path, operator: Operator, meaning: Meaning) -> int:
    """The fingerprint to open a shard's memory with, which is of this meaning or not there yet; else it is refused."""
    check_memory(folder, operator, meaning)
    if looks_new(folder):
        note(folder, meaning)
    return fingerprint(meaning)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value: each may be the name of a column."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, tuple | list | set | frozenset):
        for part in value:
            yield from _texts(part)
