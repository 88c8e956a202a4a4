"""Who has sent what: the highest number taken from each sender, so that nothing is taken twice.

A sender numbers its items 1, 2, 3, … and keeps them until they are acknowledged. A *session* is one run of a sender's
process. Within it the sender may connect again and resend; everything up to the highest number known here is then
recognised. A new session of the same sender goes on after that number. If the session before it did not say goodbye,
its process failed, and what it had not got acknowledged is lost: the sender's threshold halves, so that over any number
of its failures at most Γ items are lost.

A sender that never failed is forgotten when it says goodbye, for it has nothing left to resend. Its numbers are not
used again under any name, because segments may still hold them: a new sender begins above all that were forgotten.
"""

from dataclasses import dataclass

from spillway.errors import InputError

_NAME_BYTES_MAX = 100


@dataclass(slots=True, kw_only=True)
class KnownSender:
    """What is known of one sender."""

    number: int = 0  # the highest taken
    admitted: int = 0  # the highest acknowledged, or that may be
    planned: int = 0  # the highest among the items planned for the reader
    failures: int = 0
    session: str = ""
    open: bool = False  # a session began and did not say goodbye
    connected: bool = False
    change: int = 0  # the last one that must be durable before it may send


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """How a session begins."""

    number: int  # the sender goes on after this one: of a session that resumes, what follows may be resent
    failures: int
    changed: bool  # something is to be made durable before this session may send
    lost: int  # items acknowledged to this session that are not known here: lost with the receiver's memory


class SenderTable:
    """All senders known, the one that was heard of longest ago first."""

    def __init__(self, *, senders_max: int, forgotten: int = 0) -> None:
        self.forgotten = forgotten  # the highest number of any sender that was forgotten
        self.changes = 0
        self._durable_changes = 0
        self._senders_max = senders_max
        self._known: dict[str, KnownSender] = {}

    def __len__(self) -> int:
        return len(self._known)

    def restore(self, name: str, *, planned: int, failures: int, open: bool) -> None:
        """What the record says of a sender."""
        self._known[name] = KnownSender(number=planned, admitted=planned, planned=planned, failures=failures, open=open)

    def found(self, numbers: dict[str, int]) -> None:
        """What a segment says: these are durable."""
        for name, number in numbers.items():
            known = self._known.setdefault(name, KnownSender())
            known.number = known.admitted = max(known.number, number)

    def admitted(self, name: str, number: int) -> None:
        """Items up to this number are acknowledged."""
        if name in self._known:
            self._known[name].admitted = max(self._known[name].admitted, number)

    def planned(self, numbers: dict[str, int]) -> None:
        """Items up to these numbers are planned for the reader."""
        for name, number in numbers.items():
            if name in self._known:
                self._known[name].planned = max(self._known[name].planned, number)

    def items(self) -> list[tuple[str, KnownSender]]:
        return list(self._known.items())

    def open(self, name: str, *, session: str, resumes: bool, acknowledged: int) -> Opened:
        """Begin a session, or go on with one after the connection was lost."""
        check_sender(name)
        known = self._touched(name, self.forgotten)
        if resumes and known.session not in ("", session):
            raise InputError(f"Another process now sends as {name!r}; this one must stop or take another name.")
        # A session that was turned away and tries again is still the same one.
        failed = known.open and not resumes and known.session != session
        lost = max(0, acknowledged - known.number) if resumes else 0
        if failed or lost or not known.open:
            self.changes += 1
            known.change = self.changes
        known.failures += failed
        if not resumes:
            known.planned = known.number  # nobody is left to resend what came before
        if lost:
            # Nothing of this sender above its old number is held here, so these numbers are settled.
            known.number = known.admitted = known.planned = acknowledged
        known.session, known.open, known.connected = session, True, True
        return Opened(
            number=known.admitted if resumes else known.number,
            failures=known.failures,
            changed=known.change > self._durable_changes,
            lost=lost,
        )

    def made_durable(self, changes: int) -> None:
        """A record with so many changes was written."""
        self._durable_changes = max(self._durable_changes, changes)

    def heard(self, name: str, *, first: int, count: int, gaps: bool) -> int:
        """Items of these numbers arrived; returns how many of the first were taken before.

        Unless ``gaps`` are allowed, a number that was left out is an InputError: its item would silently be missing.
        """
        if name not in self._known:
            check_sender(name)
        known = self._touched(name)
        if first < 1 or (not gaps and first > known.number + 1):
            raise InputError(f"Sender {name!r} should go on with number {known.number + 1}; got {first}.")
        duplicates = min(count, max(0, known.number + 1 - first))
        known.number = max(known.number, first + count - 1)
        return duplicates

    def said_bye(self, name: str, session: str) -> None:
        known = self._known.get(name)
        if known is None or known.session != session:
            return
        known.open = known.connected = False
        if not known.failures:
            self._forget(name)

    def disconnected(self, name: str, session: str) -> None:
        known = self._known.get(name)
        if known is not None and known.session == session:
            known.connected = False

    def _touched(self, name: str, number: int = 0) -> KnownSender:
        """The sender, moved to the end; a new one begins after ``number``, and takes the longest unheard of's place."""
        known = self._known.pop(name, None)
        if known is None:
            if len(self._known) >= self._senders_max:
                idle = next((old for old, other in self._known.items() if not other.connected), None)
                if idle is None:
                    raise InputError(f"{self._senders_max} senders are connected, the most there may be; try later.")
                self._forget(idle)
            known = KnownSender(number=number, admitted=number, planned=number)
        self._known[name] = known
        return known

    def _forget(self, name: str) -> None:
        self.forgotten = max(self.forgotten, self._known.pop(name).number)


def check_sender(name: object) -> None:
    """Names of senders are kept in records: short, and plain text."""
    if (
        not isinstance(name, str)
        or not 0 < len(name.encode(errors="replace")) <= _NAME_BYTES_MAX
        or not name.isprintable()
    ):
        raise InputError(
            f"A sender is named with 1 to {_NAME_BYTES_MAX} bytes of printable text; got {str(name)[:40]!r}."
        )
