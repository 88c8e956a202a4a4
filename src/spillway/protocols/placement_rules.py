"""What must hold of owners whatever happens; checked after every event in tests, soaks and while a run goes on."""

from collections.abc import Mapping

from spillway.protocols.placement import Decision, Owner, Placement, Shard, Why


class RuleBrokenError(AssertionError):
    """Owners are not as they must be; the message has the story that led there."""


class Watched:
    """A placement, looked at before and after every decision."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._before: dict[Shard, Owner] = dict(placement.owners)

    def decide(self, *, now_s: float) -> Decision:
        """What the placement decides; raises if it must not."""
        placement = self.placement
        deadlines_s = {
            shard: placement.deadline_s(shard[0], host)
            for host in placement.late
            for shard in placement.shards_at(host)
        }
        decision = placement.decide(now_s=now_s)
        self._check(decision, deadlines_s, now_s)
        self._before = dict(placement.owners)
        return decision

    def _check(self, decision: Decision, deadlines_s: Mapping[Shard, float], now_s: float) -> None:
        placement, moved = self.placement, {move.shard: move for move in decision.moves}
        self._rule(len(moved) == len(decision.moves), "no shard moves twice before a batch")
        for shard, owner in placement.owners.items():
            before = self._before.get(shard)
            if before is None:
                self._rule(owner.epoch == 0 and decision.settled, "a first owner begins with epoch 0")
            elif shard in moved:
                move = moved[shard]
                self._rule(move.source == before.host and move.to == owner, "a move says what happens")
                self._rule(owner.epoch == before.epoch + 1, "a new owner begins the next epoch")
                self._rule(owner.host != before.host, "a move goes elsewhere")
                self._rule(owner.host in placement.living, "a move goes to a host that lives")
                self._rule(move.hand_over == (before.host in placement.living), "memory is handed over by the living")
                if move.why is Why.LATE:
                    self._rule(deadlines_s[shard] <= now_s, "nobody is left before its time")
            else:
                self._rule(owner == before, "an owner stays one until it moves")
        if decision.go:
            self._rule(len(placement.owners) == placement.shards, "a batch begins when every shard has an owner")
            owning = {owner.host for owner in placement.owners.values()}
            self._rule(owning <= placement.living, "a batch begins when all owners live")
        elif decision.wait_until_s is not None:
            self._rule(decision.wait_until_s > now_s, "nobody waits for what is over")

    def _rule(self, holds: bool, rule: str) -> None:
        if not holds:
            story = "\n".join(f"  {event}" for event in self.placement.story)
            raise RuleBrokenError(f"Broken: {rule}. What happened:\n{story}")
