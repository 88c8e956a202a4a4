"""What a shard's header says that the shard contains: read, never written."""

from spillway.state.header import NO_UNDO, NONE, NOWHERE, Word
from spillway.state.memory import Region


class Contained:
    """Where a shard stands, from the words of its header."""

    _header: Region

    @property
    def version(self) -> int:
        """The last batch contained, or -1."""
        return int(self._header.array[Word.VERSION])

    @property
    def torn(self) -> bool:
        return int(self._header.array[Word.APPLYING]) != NONE

    @property
    def changing(self) -> bool:
        """Whether content may change now: a batch is being applied, or a recovery is under way."""
        return self.torn or bool(self._header.array[Word.RECOVERING])

    @property
    def can_roll_back(self) -> bool:
        """Whether there is a batch to undo; who is killed in ``begin`` or ``rollback`` may leave the undo of none."""
        undo = int(self._header.array[Word.UNDO_VERSION])
        return undo != NO_UNDO and (self.torn or undo != self.version)

    @property
    def epoch(self) -> int:
        return int(self._header.array[Word.EPOCH])

    @property
    def staged(self) -> int:
        """The batch whose backup waits for that batch to be committed, or -1."""
        return int(self._header.array[Word.STAGED])

    @property
    def staged_number(self) -> int:
        """The number of that backup if it is written while further batches run; 0 if it is not."""
        words = self._header.array
        return abs(int(words[Word.STAGED_NUMBER])) if words[Word.STAGED] != NONE else 0

    @property
    def staged_told(self) -> bool:
        """Whether that backup was durable when its batch was committed, and that was told."""
        return int(self._header.array[Word.STAGED_NUMBER]) < 0

    @property
    def failures(self) -> int:
        return int(self._header.array[Word.FAILURES])

    @property
    def seq(self) -> int | None:
        """The highest ``seq`` contained or heard of; None if there was none."""
        return self._position(Word.SEQ)

    @property
    def window(self) -> int | None:
        """The window that is open, if any is."""
        return self._position(Word.WINDOW)

    @property
    def forgotten(self) -> int:
        """How many failures no longer count, because the window they fell in has ended."""
        return int(self._header.array[Word.FORGOTTEN])

    @property
    def failed_at(self) -> int | None:
        """In a sliding window: where the last failure that counts lies, if that is known."""
        return self._position(Word.FAILED_AT)

    @property
    def cleared(self) -> bool:
        """Whether this batch dropped all content."""
        return bool(self._header.array[Word.CLEARED])

    @property
    def emptied(self) -> bool:
        """Whether content was dropped since the last backup that counts: the next one must hold everything."""
        return bool(self._header.array[Word.EMPTIED])

    @property
    def rewinds(self) -> int:
        """How often its job had been sent back when this memory was last made to agree with that."""
        return int(self._header.array[Word.REWINDS])

    @property
    def backup_version(self) -> int:
        """The batch of the last backup that counts, or -1."""
        return int(self._header.array[Word.BACKUP_VERSION])

    @property
    def backup_time_s(self) -> float:
        """When that backup was written, or when the shard was made, by a clock that only goes forward."""
        return int(self._header.array[Word.BACKUP_TIME_MS]) / 1000

    @property
    def tuples_since_backup(self) -> int:
        return int(self._header.array[Word.TUPLES])

    def _position(self, word: Word) -> int | None:
        found = int(self._header.array[word])
        return None if found == NOWHERE else found
