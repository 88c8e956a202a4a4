"""How far each batch of a job has read each of its sources: noted before anybody acts on it, the same whenever asked.

A job that takes what is there (see ``graph.jobs``) must be given the same batches again when it goes back, or what it
put out would mean something else. So each batch's ends are one entry of a journal, durable before the batch is told to
whoever drives it. A journal has the batches of a thousand; those that nobody can go back to are removed as a whole.
"""

from pathlib import Path

from spillway.errors import RunError
from spillway.files.durable import make_folder
from spillway.files.journal import Journal

Ends = dict[str, int]
"""By source: how many pieces of a feed, files of a folder or batches of a log were read."""

PER_JOURNAL = 1_024


class BatchEnds:
    """The ends of one job's batches, in a folder. One process at a time adds to them; others may read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[int, Ends] = {}
        self._journals: dict[int, Journal] = {}

    def of(self, batch: int) -> Ends | None:
        """How far a batch has read; None if nothing is noted of it."""
        if batch not in self._known:
            self._read(batch // PER_JOURNAL)
        return self._known.get(batch)

    def add(self, batch: int, ends: Ends) -> None:
        """Note how far a batch reads; of a batch that is noted already it must be the same."""
        try:
            journal = self._journal(batch // PER_JOURNAL)
            with journal.locked():
                before = self.of(batch)
                assert before in (None, ends), (batch, before, ends)
                if before is None:
                    journal.add([batch, ends])
                    self._known[batch] = ends
        except OSError as error:
            raise RunError(
                f"Noting in {self._folder} which tuples are in batch {batch} failed: {error.strerror or error}. Mend "
                f"the folder and run again."
            ) from error

    def forget_before(self, batch: int) -> None:
        """Nobody will ask for batches before this one."""
        for path in self._folder.glob("ends-*.log"):
            number = int(path.stem.removeprefix("ends-"))
            if (number + 1) * PER_JOURNAL <= batch:
                path.unlink(missing_ok=True)
                self._journals.pop(number, None)
        self._known = {of: ends for of, ends in self._known.items() if of >= batch - 1}

    def _read(self, number: int) -> None:
        for batch, ends in self._journal(number).unread():
            self._known[batch] = ends

    def _journal(self, number: int) -> Journal:
        if number not in self._journals:
            make_folder(self._folder)
            self._journals[number] = Journal(self._folder / f"ends-{number}.log")
        return self._journals[number]
