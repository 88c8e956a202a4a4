"""Copies of a stream log, one by each replica of the job, held against each other batch by batch.

Every replica puts out the same, so the checksums of a batch are the same in all copies; where they are not, something
was corrupted silently in one of them. Each writer notes those of its last batches beside its log, since a batch itself
goes as soon as readers have it, and then looks at the notes of the others: whoever comes second finds out.

    sums.json    by batch: how many tuples, and the checksum of the file
"""

from spillway.engine.log_files import LogPlace
from spillway.errors import CorruptedError
from spillway.files.envelope import seal, unseal
from spillway.files.folders import LocalFolder
from spillway.graph.stream_logs import LogOutput

FORMAT = 1
BATCHES_MAX = 256
"""How many batches one copy may be ahead of another and still be compared."""

_NAME = "sums.json"


class Copies:
    """What one writer knows of the copies; nothing where they are not compared."""

    def __init__(self, place: LogPlace, output: LogOutput) -> None:
        self._output = output
        self._own = LocalFolder(place.root / output.log)
        self._others = {log: LocalFolder(place.root / log) for log in output.compared_with}

    def note(self, batch: int, *, tuples: int, checksum: str) -> None:
        """A batch is in the own log."""
        if self._others:
            before = _read(self._own)
            sums = before | {str(batch): [tuples, checksum]}
            if sums == before:
                return
            kept = sorted(sums, key=int)[-BATCHES_MAX:]
            self._own.write(_NAME, seal({of: sums[of] for of in kept}, format=FORMAT))

    def compare(self, batch: int) -> None:
        """Raise if another copy has something else in a batch that the own log has."""
        own = _read(self._own).get(str(batch)) if self._others else None
        for log, folder in self._others.items():
            other = _read(folder).get(str(batch))
            if own is not None and other is not None and own != other:
                raise CorruptedError(
                    f"Batch {batch} of stream {self._output.stream} is another in each copy: {self._output.log} has "
                    f"{own[0]:,} tuples with checksum {own[1]}, {log} has {other[0]:,} with {other[1]}. Something was "
                    f"corrupted silently in one of the replicas, and nothing tells in which. Begin anew with another "
                    f"checkpoint, or from backups that are older."
                )


def _read(folder: LocalFolder) -> dict[str, list[object]]:
    try:
        body = unseal(folder.read(_NAME), format=FORMAT, what=f"{_NAME} in {folder.place}")
    except FileNotFoundError:
        return {}
    return {} if body is None else {str(batch): list(found) for batch, found in body.items()}
