"""What gives state its meaning, and the sentences that refuse state of another one.

The numbers in a shard say nothing by themselves: they are counts of a key, of tuples in a window, by a class that was
written for them. A *meaning* is all of that as plain text, by name; what is none is left out. State goes on only with
the meaning it was written with, for otherwise it would be a mixture of two that nobody asked for.

Backups carry the whole meaning in every manifest. Memory carries 64 bits of it in its header, its fingerprint, and that
is what decides; a note beside the header holds the text, and only serves to say what has changed. The note is written
before the header, so a header never lacks it, and one that does not fit the fingerprint explains nothing.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import xxhash

from spillway.files.durable import write_whole
from spillway.state.memory import memory_error

Meaning = Mapping[str, str]

SHARDS = "shards"
BACKUPS = "backups"
TYPE = "the type of "
"""How the names of columns' types begin; a column is named by something else, too."""

START_ANEW = "start anew in other folders (checkpoint=, state= and backups=, whichever are named)."

NOTE = "meaning.json"


def fingerprint(meaning: Meaning) -> int:
    """A signed 64-bit number that stands for a meaning, in whatever order it is told.

    >>> fingerprint({"key": "'k'", "class": "Count"}) == fingerprint({"class": "Count", "key": "'k'"})
    True
    >>> fingerprint({"key": "'k'"}) == fingerprint({"key": "'k2'"})
    False
    """
    return xxhash.xxh3_64_intdigest(json.dumps(dict(meaning), sort_keys=True).encode()) - 2**63


def changes(was: Meaning, now: Meaning) -> str:
    """What is different, from what to what; the number of shards has a sentence of its own.

    >>> changes({"class": "Count", "key": "'k'"}, {"class": "Count", "key": "'k2'", "value": "'v'"})
    "key was 'k' and is 'k2'; value was none and is 'v'"
    """
    told = []
    for name in dict.fromkeys([*now, *was]):
        before, after = was.get(name, "none"), now.get(name, "none")
        # A column that only one of the two has is one that another entry names.
        unheard = name.startswith(TYPE) and "none" in (before, after)
        if before != after and name != SHARDS and not unheard:
            told.append(f"{name} was {before} and is {after}")
    return "; ".join(told)


def refusal(operator: str, was: Meaning | None, now: Meaning, *, of: str) -> str:
    """Why state cannot be gone on with, and what can be done.

    ``of`` names it, as in ``its backups in s3://bucket/run were``; None for ``was`` if nobody knows any more.
    """
    if was is None:
        return (
            f"Operator {operator!r} means something else than when {of} written; what it was can no longer be read. "
            f"Put it back as it was, or {START_ANEW}"
        )
    told = changes(was, now)
    before, after = was.get(SHARDS, "none"), now.get(SHARDS, "none")
    if before == after:
        return (
            f"Operator {operator!r} means something else than when {of} written: {told}. Put it back as it was, or "
            f"{START_ANEW}"
        )
    return (
        f"Operator {operator!r} had {before} shards when {of} written and has {after} now. "
        + (f"It also means something else: {told}. " if told else "")
        + f"Say rescale=True (--rescale) to have its state divided anew, run it with {before} shards, or {START_ANEW}"
    )


def note(folder: Path, meaning: Meaning) -> None:
    """Leave a shard's meaning in its folder, which has no header yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / NOTE, json.dumps(dict(meaning), indent=2).encode())
    except OSError as error:
        raise memory_error(folder / NOTE, error) from error


def noted(folder: Path, *, fingerprint_found: int) -> Meaning | None:
    """The meaning that memory with this fingerprint was written with; None if the note is missing or not of it."""
    with suppress(OSError, ValueError, TypeError):
        found = json.loads((folder / NOTE).read_text())
        if isinstance(found, dict) and fingerprint(found) == fingerprint_found:
            return found
    return None
