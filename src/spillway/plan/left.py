"""What is left of every fault that was tried, under the effect of a protection.

Outages, the loss of all state and state that is old are tried apart. Where an effect is several of them, their Ilq are
added up.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from spillway.model.terms import Effect
from spillway.plan.evidence import Evidence, Impact, Impacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The impacts of all faults that some effects come to, by operator and seconds."""

    outages: Impacts
    losses: Impacts
    set_back: Impacts


def tried(evidence: Evidence, effects: Iterable[tuple[str, Effect]]) -> Tried:
    """Have all that the effects on these operators leave tried, as far as it has not been."""
    of: dict[str, list[Effect]] = {}
    for name, effect in effects:
        of.setdefault(name, []).append(effect)
    order = [name for name in evidence.checked.order if name in of and name in evidence.reaching]
    losing = [name for name in order if any(effect.lost_s for effect in of[name])]
    forgetting = [name for name in order if any(effect.forgets for effect in of[name])]
    stale = [name for name in order if any(effect.stale_s for effect in of[name])]
    return Tried(
        outages=evidence.outages({each.lost_s for name in losing for each in of[name] if each.lost_s}, losing),
        losses=evidence.losses_of_state(forgetting),
        set_back=evidence.set_back({each.stale_s for name in stale for each in of[name] if each.stale_s}, stale),
    )


class Left:
    """What is left of every fault that was tried, under an effect."""

    def __init__(self, evidence: Evidence, found: Tried, *, window_s: float) -> None:
        self._evidence = evidence
        self._tried = found
        campaign = evidence.campaign
        self._samples = len(campaign.offsets) * campaign.repetitions
        self._sections = max(window_s * evidence.rate[1] / campaign.section_tuples, 1.0)

    def of(self, operator: str, effect: Effect) -> tuple[float, ...]:
        return tuple(impact.ilq / self._sections for impact in self.impacts(operator, effect))

    def wrong_s(self, operator: str, effect: Effect) -> float:
        """For how long the output is wrong at worst."""
        return max(impact.wrong_s for impact in self.impacts(operator, effect))

    def impacts(self, operator: str, effect: Effect) -> tuple[Impact, ...]:
        found = (Impact(ilq=0.0, wrong_s=0.0),) * self._samples
        if operator not in self._evidence.reaching:
            return found
        parts = []
        if effect.lost_s:
            parts.append(self._tried.outages[self._evidence.stand_ins[operator], effect.lost_s])
        if effect.forgets:
            parts.append(self._tried.losses[operator, 0.0])
        if effect.stale_s:
            parts.append(self._tried.set_back[operator, effect.stale_s])
        for part in parts:
            found = tuple(
                Impact(ilq=one.ilq + other.ilq, wrong_s=max(one.wrong_s, other.wrong_s))
                for one, other in zip(found, part, strict=True)
            )
        return found
