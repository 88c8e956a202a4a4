"""The replicas of a group that run in one session on a cluster: which hosts each has, so that others keep off them.

Each has a placement of its own, which is told of the hosts of the others before it decides (``Placement.apart``), and
one decides at a time. Hosts that memory is about to be handed over to are told, too.
"""

import threading
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

from spillway.protocols.placement import Decision, Placement


class Neighbours:
    """The replicas of one group."""

    def __init__(self, replicas: Sequence[str]) -> None:
        self._hosts: dict[str, frozenset[str]] = {name: frozenset() for name in replicas}
        self._lock = threading.Lock()

    @contextmanager
    def deciding(self, replica: str, placement: Placement) -> Iterator[None]:
        """While a replica decides, the others wait; its placement knows of theirs."""
        with self._lock:
            others = {name: hosts for name, hosts in self._hosts.items() if name != replica}
            to_come = sum(not hosts for hosts in others.values())
            placement.apart(frozenset[str]().union(*others.values()), to_come=to_come)
            yield

    def has(self, replica: str, hosts: Set[str]) -> None:
        """A replica that is deciding has these hosts, or is to have them."""
        assert self._lock.locked(), "others may be deciding"
        self._hosts[replica] = frozenset(hosts)


class Neighbour:
    """One of them; without a group it has no others."""

    def __init__(self, neighbours: Neighbours | None = None, replica: str = "") -> None:
        self._neighbours = neighbours
        self._replica = replica
        self._crowded = False

    def decide(self, placement: Placement, *, now_s: float) -> Decision:
        """What a placement decides with respect to the others."""
        if self._neighbours is None:
            return placement.decide(now_s=now_s)
        with self._neighbours.deciding(self._replica, placement):
            decision = placement.decide(now_s=now_s)
            proposed = {move.to.host for move in decision.hand_overs}
            self._neighbours.has(self._replica, proposed | {owner.host for owner in placement.owners.values()})
            return decision

    def told(self, *, crowded: bool) -> str:
        """What is to be said once, if it shares a host with others now and did not before."""
        begins, self._crowded = crowded and not self._crowded, crowded
        if not begins:
            return ""
        return (
            f"Replica {self._replica!r} shares a host with another of its group, because there are too few hosts: "
            f"losing that one costs the memory of both."
        )
