"""What a replica goes on with when it is started: its own state, that of a peer, or nothing.

Theory of operation
-------------------
A replica has *come* as far as the last batch that counts for it, and its memory is *whole* if it is that of this batch,
whatever has happened. A peer can be started from if its memory is whole, at whatever batch it is just then: replicas
put out the same, so what one holds after a batch is what another should. It always has come at least as far as the
streams it reads have been let go of, since nobody lets go of what it has yet to read; so whoever starts from it finds
all that comes behind.

    let go      the replica was away for so long that nobody kept for it what it has not read. It starts from a peer
                that has come further, whatever was declared; while there is none, it stays out. If none has come
                further and its memory is whole it has missed nothing after all
    own         its own state, whatever that is
    peer        that of the peer that has come furthest, if that is further than it has itself; if not, its own, if that
                is whole. If it is not, it waits for a peer to come further, as long as one seems to be at work
    nothing     if it has been at work before: empty state, behind what anybody has done

A peer only ever starts it *further* on, never earlier: of what is behind, backups and logs of its own tell something
else, and readers may have been told of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Start(StrEnum):
    """What a replica goes on with."""

    OWN = "own"
    PEER = "peer"
    NOTHING = "nothing"
    WAIT = "wait"  # none of these yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a replica has come, and whether its memory is what it should be then."""

    committed: int  # the last batch that counts; -1 if none does
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Where a replica starts from."""

    start: Start
    peer: str = ""  # from whom, or behind whom if from nothing; empty if nobody has come further


def decide(
    restart: str, own: Standing, peers: Mapping[str, Standing], *, let_go: bool = False, hopeful: bool = False
) -> Decision:
    """What a replica goes on with; ``hopeful`` if a peer seems to be at work. Peers that were let go are not named.

    >>> peers = {"a-1": Standing(committed=7, whole=True)}
    >>> decide("peer", Standing(committed=3, whole=True), peers)
    Decision(start=<Start.PEER: 'peer'>, peer='a-1')
    >>> decide("own", Standing(committed=3, whole=True), peers).start
    <Start.OWN: 'own'>
    >>> decide("own", Standing(committed=3, whole=True), peers, let_go=True)
    Decision(start=<Start.PEER: 'peer'>, peer='a-1')
    """
    whole = {name: peer for name, peer in peers.items() if peer.whole and peer.committed > own.committed}
    ahead = max(whole, key=lambda name: whole[name].committed, default="")
    if restart == "nothing" and (let_go or own.committed >= 0):
        # It needs no memory of theirs, only to know where they are.
        further = {name: peer for name, peer in peers.items() if peer.committed > own.committed}
        return Decision(start=Start.NOTHING, peer=max(further, key=lambda name: further[name].committed, default=""))
    if ahead and (let_go or restart == "peer"):
        return Decision(start=Start.PEER, peer=ahead)
    if let_go:
        kept_up = own.whole and any(peer.committed <= own.committed for peer in peers.values())
        return Decision(start=Start.OWN if kept_up else Start.WAIT)
    if restart == "peer" and not own.whole and hopeful:
        return Decision(start=Start.WAIT)
    return Decision(start=Start.OWN)
