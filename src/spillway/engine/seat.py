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
        """Who is active."""
        for epoch in sorted(self._epochs(), reverse=True):
            with suppress(FileNotFoundError):  # a much newer one came meanwhile
                body = unseal(self._folder.read(_name(epoch)), format=FORMAT, what=f"{_name(epoch)} in {self._path}")
                if body is not None:
                    missing = {of: frozenset(map(str, body.get(of, ()))) for of in ("away", "returning")}
                    return Seated(epoch=epoch, replica=str(body["replica"]), **missing)
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
