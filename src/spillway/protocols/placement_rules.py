"""What must hold of owners whatever happens; checked after every event in tests and soaks."""

from collections.abc import Mapping

from spillway.protocols.placement import Decision, Move, Owner, Placement, Shard, Why


class RuleBrokenError(AssertionError):
    """Something is not as it must be; the message has the story that led there."""


class Watched:
    """A placement, looked at before and after every decision."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._before: dict[Shard, Owner] = dict(placement.owners)
        self._highest = {shard: owner.epoch for shard, owner in placement.owners.items()} | dict(placement.given)

    def handed_over(self, move: Move) -> None:
        """The placement is told of it."""
        self.placement.handed_over(move)
        self._before = dict(self.placement.owners)
        self._rule(self._before[move.shard] == move.to, "who was handed the memory is the owner")

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
                self._rule(decision.settled, "owners are given out once")
            elif shard in moved:
                move = moved[shard]
                self._rule(move.source == before.host and move.to == owner, "a move says what happens")
                self._rule(owner.epoch > before.epoch, "a new owner begins another epoch")
                self._rule(owner.host in placement.living, "a move goes to a host that lives")
                self._rule(not move.hand_over, "what is handed over counts when it is done")
                self._rule(move.why in (Why.LATE, Why.LOST), "memory that can be had is not given up")
                self._rule((owner.host == before.host) == (move.why is Why.LOST), "who is left is left for another")
                if move.why is Why.LATE:
                    self._rule(deadlines_s[shard] <= now_s, "nobody is left before its time")
            else:
                self._rule(owner == before, "an owner stays one until it moves")
            self._new_epoch(shard, owner, before)
        self._check_apart(decision)
        self._check_hand_overs(decision)
        if decision.go:
            self._rule(len(placement.owners) == placement.shards, "a batch begins when every shard has an owner")
            owning = {owner.host for owner in placement.owners.values()}
            self._rule(owning <= placement.living, "a batch begins when all owners live")
        elif decision.wait_until_s is not None:
            self._rule(decision.wait_until_s > now_s, "nobody waits for what is over")

    def _check_apart(self, decision: Decision) -> None:
        """Replicas of a job keep off each other's hosts where there are enough."""
        placement = self.placement
        usable = placement.living - placement.draining or placement.living
        others = usable - placement.avoided
        taken = {move.to.host for move in decision.moves if move.why is Why.LATE}
        taken |= {owner.host for owner in placement.owners.values()} if decision.settled else set()
        self._rule(not others or taken.isdisjoint(placement.avoided), "who has a choice keeps off hosts of others")
        if decision.settled and len(others) > placement.to_come:
            self._rule(len(others - taken) >= placement.to_come, "who comes first leaves a host to each who is to come")
        for move in decision.hand_overs:
            if move.why is Why.APART:
                apart = move.source in placement.avoided and move.to.host not in placement.avoided
                self._rule(apart, "who moves to be apart is apart then")

    def _check_hand_overs(self, decision: Decision) -> None:
        placement = self.placement
        shards = [move.shard for move in decision.hand_overs]
        self._rule(len({*shards}) == len(shards), "no shard is handed over twice at once")
        self._rule(not (decision.moves and shards), "nothing is handed over while something is lost")
        for move in decision.hand_overs:
            owner = placement.owners[move.shard]
            self._rule(move.hand_over and move.source == owner.host, "the owner hands over")
            self._rule(move.to.host != owner.host, "memory is handed over to another")
            self._rule({move.source, move.to.host} <= placement.living, "memory is handed over among the living")
            self._rule(move.to.epoch > self._highest[move.shard], "an epoch is given out once")
            self._highest[move.shard] = move.to.epoch

    def _new_epoch(self, shard: Shard, owner: Owner, before: Owner | None) -> None:
        if owner != before:
            self._rule(owner.epoch > self._highest.get(shard, -1), "an epoch is given out once")
            self._highest[shard] = owner.epoch

    def _rule(self, holds: bool, rule: str) -> None:
        if not holds:
            story = "\n".join(f"  {event}" for event in self.placement.story)
            raise RuleBrokenError(f"Broken: {rule}. What happened:\n{story}")
