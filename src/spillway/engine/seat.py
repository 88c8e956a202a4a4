"""Which replica of a group is active, where all its replicas and readers see it: a folder beside their stream logs.

    epoch-N.json         the replica that is active in epoch N, and those that are missing; made once, by whoever comes
                         first, and never replaced
    beat-REPLICA.json    how often its heart has beaten while it was active

See ``protocols.failover`` and ``protocols.seating`` for who writes what when. Old epochs go, but for a few that
somebody may just be reading.
"""

import os
from contextlib import suppress

from spillway.engine.log_files import LogPlace
from spillway.errors import StateError
from spillway.files.durable import UNFINISHED, create_whole, make_folder
from spillway.files.envelope import seal, unseal
from spillway.files.folders import LocalFolder
from spillway.protocols.seating import NOBODY, Seated

FORMAT = 1
_KEPT = 16
_PREFIX, _SUFFIX = "epoch-", ".json"


class Seat:
    """The seat of one group."""

    def __init__(self, place: LogPlace, job: str) -> None:
        self._path = place.root / f".seat-{job}"  # no stream's name begins like that
        self._folder = LocalFolder(self._path)

    def newest(self) -> Seated:
        """Who is active; refused if that is damaged, because the entry before it says something else."""
        while epochs := self._epochs():
            with suppress(FileNotFoundError):  # much newer ones came since they were listed
                return self._entry(max(epochs))
        return Seated()

    def add(self, seated: Seated) -> bool:
        """Add an entry behind the one that it follows from; false if somebody else has added one there."""
        make_folder(self._path)
        epoch = seated.epoch
        if max(self._epochs(), default=NOBODY) >= epoch:
            return False
        body = {"replica": seated.replica, "away": sorted(seated.away), "returning": sorted(seated.returning)}
        try:
            create_whole(self._path / _name(epoch), seal(body, format=FORMAT))
        except FileExistsError:
            return False
        if max(self._epochs()) >= epoch + _KEPT:
            return False  # it was there before, and is gone since: whoever was so slow is too late
        for old in self._epochs():
            if old <= epoch - _KEPT:
                self._folder.remove(_name(old))
        return True

    def beat(self, replica: str, beats: int) -> None:
        """The active replica is alive."""
        self._folder.write(_beat(replica), seal({"beats": beats}, format=FORMAT))

    def beats(self, replica: str) -> int:
        """How often a heart has beaten."""
        try:
            body = unseal(self._folder.read(_beat(replica)), format=FORMAT, what=f"{_beat(replica)} in {self._path}")
        except FileNotFoundError:
            return 0
        return 0 if body is None else int(body["beats"])

    def _entry(self, epoch: int) -> Seated:
        name = _name(epoch)
        body = unseal(self._folder.read(name), format=FORMAT, what=f"{name} in {self._path}")
        if body is None:
            raise StateError(
                f"{self._path / name} is damaged: it says which replica is active. Stop all drivers of this run, "
                f"remove that folder and start them again: replicas then agree anew."
            )
        missing = {of: frozenset(map(str, body.get(of, ()))) for of in ("away", "returning")}
        return Seated(epoch=epoch, replica=str(body["replica"]), **missing)

    def _epochs(self) -> list[int]:
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        return [
            int(name[len(_PREFIX) : -len(_SUFFIX)])
            for name in names
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX) and not name.startswith(UNFINISHED)
        ]


def _name(epoch: int) -> str:
    return f"{_PREFIX}{epoch:08d}{_SUFFIX}"


def _beat(replica: str) -> str:
    return f"beat-{replica}.json"
