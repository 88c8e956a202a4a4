"""A sender without its socket: what was given and is not acknowledged yet.

Items are numbered as they are given, and kept until acknowledged:

    given and not acknowledged <= unacked_max           the receiver's γ

which is what is lost if the process is killed. After a reconnect everything kept is sent again, from the first item
the receiver does not know.
"""

from collections import deque
from dataclasses import dataclass

from spillway.receiver.wire.frames import ITEMS_JSON, items_frame

_JSON_BYTES = 1 << 16  # single items are gathered up to about this much


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Items that go in one frame."""

    first: int
    count: int
    kind: int
    payload: bytes | memoryview

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def frame(self) -> bytes:
        return items_frame(self.kind, self.first, self.payload)


class Outbox:
    """Items on their way."""

    def __init__(self, *, number: int, unacked_max: int, frame_items_max: int, frame_bytes_max: int) -> None:
        self.unacked_max = unacked_max
        self.given = self.acknowledged = number  # the number of the last item given, and acknowledged
        self.frame_items_max = frame_items_max
        self.frame_bytes_max = frame_bytes_max
        self._parcels: deque[Parcel] = deque()
        self._sent = 0  # parcels at the front that were sent on this connection
        self._lines: list[bytes] = []
        self._lines_bytes = 0

    @property
    def unacked(self) -> int:
        return self.given - self.acknowledged

    @property
    def room(self) -> int:
        """How many more items may be given now."""
        return max(0, self.unacked_max - self.unacked)

    def add(self, *, kind: int, payload: bytes | memoryview, count: int) -> None:
        """Items that were encoded together."""
        assert 0 < count <= self.room
        self._seal()
        self._parcels.append(Parcel(first=self.given + 1, count=count, kind=kind, payload=payload))
        self.given += count

    def add_line(self, line: bytes) -> None:
        """One item as JSON; it travels with those that come before the connection is ready for it."""
        assert self.room > 0
        full = self._lines_bytes + len(line) + 1 > min(_JSON_BYTES, self.frame_bytes_max - 16)
        if full or len(self._lines) >= self.frame_items_max:
            self._seal()
        self._lines.append(line)
        self._lines_bytes += len(line) + 1
        self.given += 1

    def next(self) -> Parcel | None:
        """The next parcel to send."""
        if self._sent == len(self._parcels):
            self._seal()
        if self._sent == len(self._parcels):
            return None
        self._sent += 1
        return self._parcels[self._sent - 1]

    def acknowledge(self, number: int) -> None:
        """Everything up to here was dealt with by the receiver."""
        self.acknowledged = max(self.acknowledged, min(number, self.given - len(self._lines)))
        while self._parcels and self._parcels[0].last <= self.acknowledged:
            self._parcels.popleft()
            self._sent = max(0, self._sent - 1)

    def reconnected(self, *, number: int, unacked_max: int) -> None:
        """On a new connection: the receiver knows everything up to here, and allows this much."""
        self.unacked_max = unacked_max
        self.acknowledge(number)
        self._sent = 0

    def _seal(self) -> None:
        if self._lines:
            first = self.given - len(self._lines) + 1
            payload = b"\n".join(self._lines) + b"\n"
            self._parcels.append(Parcel(first=first, count=len(self._lines), kind=ITEMS_JSON, payload=payload))
            self._lines, self._lines_bytes = [], 0
