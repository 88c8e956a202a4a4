"""The header of a shard's folder: 64-bit words that say what the arrays beside it contain.

The first words tell whose memory this is, the next ones where the shard stands, and each array has seven of its own
from ``Word.ARRAYS`` on (see ``arrays``). ``MAGIC`` is written last, so that a header whose maker was killed looks new.
A word is written whole or not at all, whatever ends the process.
"""

from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spillway.errors import StateError
from spillway.state.arrays import SCALARS
from spillway.state.boot import this_boot
from spillway.state.meaning import NOTE
from spillway.state.memory import Region, memory_error

MAGIC = 0x5350_494C_4C57_4159  # "SPILLWAY"
FORMAT = 5
NONE = -1  # no batch; as a version: empty
NO_UNDO = -2  # there is nothing to roll back to
NOWHERE = -(2**63)  # no seq, no window, no position: all of these may be below zero
ARRAYS_MAX = 256


class Word(IntEnum):
    """Words of the header before those of the arrays."""

    MAGIC = 0
    FORMAT = 1
    FINGERPRINT = 2
    EPOCH = 3
    VERSION = 4
    APPLYING = 5
    UNDO_VERSION = 6
    STAGED = 7
    FAILURES = 8
    SEQ = 9
    UNDO_SEQ = 10
    BACKUP_VERSION = 11
    BACKUP_TIME_MS = 12  # on a clock that is never set and lasts as long as memory does: see clock
    STAGED_TIME_MS = 13
    TUPLES = 14  # applied since the last backup that counts
    UNDO_TUPLES = 15
    RECOVERING = 16  # 1 from a reset until what follows it is complete
    WINDOW = 17  # the window that is open
    UNDO_WINDOW = 18
    FORGOTTEN = 19  # failures that no longer count, because their window has ended
    UNDO_FORGOTTEN = 20
    FAILED_AT = 21  # in a sliding window: where the last failure lies
    UNDO_FAILED_AT = 22
    CLEARED = 23  # 1 if this batch emptied the shard
    BOOT = 24  # the start of the machine in which this memory was made: see boot
    EMPTIED = 25  # 1 if the shard was emptied since the last backup that counts
    UNDO_EMPTIED = 26
    REWINDS = 27  # how often its job had been sent back when this memory was last made to agree with that
    STAGED_NUMBER = (
        28  # of the staged backup, if it may be written while further batches run; else 0. Negative once told
    )
    STAGED_TUPLES = 29  # applied since the backup before, when its copy was taken
    ARRAYS = 32


AT_FIRST = {
    Word.VERSION: NONE,
    Word.APPLYING: NONE,
    Word.UNDO_VERSION: NO_UNDO,
    Word.STAGED: NONE,
    Word.STAGED_NUMBER: 0,
    Word.STAGED_TUPLES: 0,
    Word.FAILURES: 0,
    Word.SEQ: NOWHERE,
    Word.UNDO_SEQ: NOWHERE,
    Word.BACKUP_VERSION: NONE,
    Word.BACKUP_TIME_MS: 0,
    Word.STAGED_TIME_MS: 0,
    Word.TUPLES: 0,
    Word.UNDO_TUPLES: 0,
    Word.WINDOW: NOWHERE,
    Word.UNDO_WINDOW: NOWHERE,
    Word.FORGOTTEN: 0,
    Word.UNDO_FORGOTTEN: 0,
    Word.FAILED_AT: NOWHERE,
    Word.UNDO_FAILED_AT: NOWHERE,
    Word.CLEARED: 0,
    Word.EMPTIED: 0,
    Word.UNDO_EMPTIED: 0,
    Word.REWINDS: 0,
}
"""What an empty shard says, in the order it is written: killed in between, the shard still counts as empty.

``EPOCH`` is not among them. It only ever grows, so that a mark left on a chunk is never taken for one of this batch.
"""

UNDONE = {
    Word.SEQ: Word.UNDO_SEQ,
    Word.TUPLES: Word.UNDO_TUPLES,
    Word.WINDOW: Word.UNDO_WINDOW,
    Word.FORGOTTEN: Word.UNDO_FORGOTTEN,
    Word.FAILED_AT: Word.UNDO_FAILED_AT,
    Word.EMPTIED: Word.UNDO_EMPTIED,
}
"""What a rollback puts back, and where it finds it."""

_WORDS = Word.ARRAYS + ARRAYS_MAX * SCALARS


def open_header(folder: Path, *, fingerprint: int, boot: int) -> Region:
    """The header in ``folder``, made if there is none; one of another layout is refused untouched.

    What another boot left is lost memory: it is removed, with all that lies beside it.
    """
    header = Region(folder / "header", np.int64)
    if _of_another_boot(header.array, boot):
        for path in folder.iterdir():
            if path.name != NOTE:  # it is written before the header
                path.unlink()
        header = Region(folder / "header", np.int64)
    whole_words = header.path.stat().st_size == header.bytes
    if whole_words and not header.array[: Word.MAGIC + 1].any():
        header.reserve(_WORDS)
        words = header.array
        words[Word.FORMAT] = FORMAT
        words[Word.FINGERPRINT] = fingerprint
        words[Word.BOOT] = boot
        for word, value in AT_FIRST.items():
            words[word] = value
        words[Word.MAGIC] = MAGIC
    words = header.array
    ours = len(words) > Word.FORMAT and words[Word.MAGIC] == MAGIC
    if ours and words[Word.FORMAT] != FORMAT:  # which may be shorter
        raise StateError(
            f"State folder {folder} was not written by this version of Spillway (format {int(words[Word.FORMAT])}, "
            f"wanted {FORMAT}). Use another folder, or 'spillway clean' it."
        )
    if not ours or len(words) < _WORDS:
        raise StateError(f"Folder {folder} has a file 'header' that is not the header of a shard. Use another folder.")
    if words[Word.FINGERPRINT] != fingerprint:
        raise StateError(
            f"State folder {folder} holds the state of another graph or of operators with other settings. Use "
            f"another folder, or 'spillway clean' it."
        )
    return header


def fingerprint_in(folder: Path) -> int | None:
    """The fingerprint of the memory in ``folder``; None if there is none, or none that this version reads."""
    words = _words_in(folder)
    ours = _is_ours(words) and words[Word.BOOT] == this_boot()
    return int(words[Word.FINGERPRINT]) if ours else None


def looks_new(folder: Path) -> bool:
    """Whether there is no memory in ``folder``, or only what another boot left, or a maker who was killed."""
    words = _words_in(folder)
    return not words[: Word.MAGIC + 1].any() or _of_another_boot(words, this_boot())


def recovering_in(folder: Path) -> bool:
    """Whether what is in ``folder`` is a mixture that a recovery, under way or cut short, has not completed."""
    words = _words_in(folder)
    return _is_ours(words) and bool(words[Word.RECOVERING])


def version_in(folder: Path) -> int | None:
    """The last batch that the memory in ``folder`` contains, or -1; None if there is none that is complete."""
    words = _words_in(folder)
    whole = _is_ours(words) and words[Word.BOOT] == this_boot() and not words[Word.RECOVERING]
    return int(words[Word.VERSION]) if whole else None


def rename_in(folder: Path, *, fingerprint: int) -> None:
    """Make memory that is a copy of another's its own: it is opened with this fingerprint from now on."""
    header = Region(folder / "header", np.int64)
    assert _is_ours(header.array), folder
    header.array[Word.FINGERPRINT] = fingerprint
    header.close()


def settle_in(folder: Path, *, boot: int, clock_ahead_ms: int) -> None:
    """Make memory that was copied from another host this boot's own, so that it is believed here.

    The header tells times by the clock of the machine it was on, which started at another moment: they are told anew,
    by a clock that is ahead of that one by ``clock_ahead_ms`` (or behind it, if that is below zero). Otherwise a backup
    might seem to lie in the future, and the next one would not be due before that. Memory of this same boot has this
    clock's times already and stays as it is.
    """
    header = Region(folder / "header", np.int64)
    if not _is_ours(header.array):
        raise StateError("The memory was not written by this version of Spillway. Have the same one on all hosts.")
    if header.array[Word.BOOT] != boot:
        for word in (Word.BACKUP_TIME_MS, Word.STAGED_TIME_MS):
            header.array[word] += clock_ahead_ms
        header.array[Word.BOOT] = boot
    header.close()


def _is_ours(words: npt.NDArray[np.int64]) -> bool:
    return len(words) == _WORDS and words[Word.MAGIC] == MAGIC and words[Word.FORMAT] == FORMAT


def _of_another_boot(words: npt.NDArray[np.int64], boot: int) -> bool:
    return _is_ours(words) and bool(words[Word.BOOT] != boot)


def _words_in(folder: Path) -> npt.NDArray[np.int64]:
    try:
        return np.fromfile(folder / "header", np.int64, count=_WORDS)
    except FileNotFoundError:
        return np.empty(0, np.int64)
    except OSError as error:
        raise memory_error(folder / "header", error) from error
