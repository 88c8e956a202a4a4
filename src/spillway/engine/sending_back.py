"""A job that is stopped is sent back by hand, without its graph, to a checkpoint that is kept (see ``rewinding``).

Everything it needs lies in folders: which checkpoints there are in those of the backups, where Spark would go on in its
checkpoint, what was put out in that of each Parquet sink. The steps and their order are those of a job that goes back
by itself; shards go back when the job is run again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spillway.backup.reach import FOLDER, Reach
from spillway.engine.parquet_folder import forget_batches
from spillway.engine.permanent import PermanentStore
from spillway.engine.resuming import manifests_that_count, operators_found
from spillway.engine.rewinding import Note, checkpoints, read_note, write_note
from spillway.errors import RunError
from spillway.files.folders import open_folder
from spillway.graph.protections import JobProtection

_LOGS = ("commits", "offsets")
_NUMBER = re.compile(r"\.?(\d+)(?:\.crc)?")  # of a batch, or its checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedJob:
    """Where the parts of a job lie that does not run."""

    graph: str
    backups: str
    checkpoint: str
    parquet: Sequence[str] = ()  # folders of its sinks

    def committed(self) -> int:
        """The last batch that Spark has noted as done; -1 if there is none."""
        names = open_folder(self.checkpoint, "commits").names()
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def checkpoints(self) -> list[int]:
        """The batches that it can be sent back to, oldest first."""
        if PermanentStore(self.graph, backups=self.backups).read() is not None:
            raise RunError(
                f"Graph {self.graph!r} is one job of several, which count on it never to go back behind its last "
                f"checkpoint. They can only begin anew, with other folders (checkpoint= and backups=)."
            )
        shards = operators_found(self.graph, backups=self.backups)
        self._check_protection(shards)
        kept = {int(name) for name in open_folder(self.checkpoint, "offsets").names() if name.isdecimal()}
        found = checkpoints(self.graph, shards, backups=self.backups)
        last = min(self.committed(), self._note().to) if not self._note().finished else self.committed()
        return [batch for batch in found if batch <= last and batch in kept]

    def send_back(self, to: int) -> None:
        """Have the job go on behind the checkpoint of batch ``to`` when it is run again."""
        found = self.checkpoints()
        if to not in found:
            known = ", ".join(map(str, found)) or "none"
            raise RunError(
                f"Graph {self.graph!r} cannot be sent back to batch {to}. What all of its shards and Spark have kept: "
                f"{known}."
            )
        note = Note(rewinds=self._note().rewinds + 1, to=to, finished=False)
        folder = open_folder(self.backups, self.graph)
        write_note(folder, note)
        Reach(open_folder(self.checkpoint, FOLDER)).rewound(to)
        for name in _LOGS:
            self._forget(name, to)
        for path in self.parquet:
            forget_batches(path, after=to)
        write_note(folder, replace(note, finished=True))

    def _forget(self, log: str, to: int) -> None:
        folder = open_folder(self.checkpoint, log)
        later = {name: int(match[1]) for name in folder.names() if (match := _NUMBER.fullmatch(name))}
        for name in sorted(later, key=lambda name: (later[name], name.isdecimal()), reverse=True):
            if later[name] > to:
                folder.remove(name)

    def _note(self) -> Note:
        return read_note(open_folder(self.backups, self.graph))

    def _check_protection(self, shards: dict[str, int]) -> None:
        """Refuse a job whose shards would not go back."""
        together = {kind.__name__ for kind in JobProtection.__subclasses__()}
        for operator, count in shards.items():
            for manifest in manifests_that_count(self.graph, operator, shards=count, backups=self.backups):
                if manifest is not None and manifest.protection.partition("(")[0] not in together:
                    raise RunError(
                        f"Operator {operator!r} of graph {self.graph!r} is protected by {manifest.protection}: only a "
                        f"job whose shards are saved together, as under {' or '.join(sorted(together))}, can be sent "
                        f"back."
                    )
