"""Refuse a net that cannot run, with the place or activity named, before it runs or when it gets there."""

from typing import Any

from spillway.errors import ModelError
from spillway.san import firing
from spillway.san.bounds import enabling
from spillway.san.flat import Flat
from spillway.san.net import Net
from spillway.san.semantics import enabled, settled

PLACES_TOLD_MAX = 20


def check(net: Net) -> None:
    """What can be known before a run: that it begins, and that every activity could ever happen.

    A net also checks what it is told as it is told: see `Net`. Whether it may get stuck later, nobody can say in
    general; the event loop notices, and `refusal` below says so.
    """
    for activity in net.activities.values():
        bounds, _ = enabling(activity)
        for place, (low, high) in bounds.items():
            if low > high:
                raise ModelError(
                    f"Activity {activity.name!r} can never be enabled: it wants at least {low} and at most {high} "
                    f"tokens in place {place!r}."
                )
    if not net.activities:
        raise ModelError(f"Net {net.name!r} has no activity.")
    starts = settled(net, {name: place.tokens for name, place in net.places.items()})
    for start in starts:
        if not net.may_stop and not any(enabled(activity, start.marking) for activity in net.activities.values()):
            raise ModelError(
                f"Net {net.name!r}: nothing can happen from the first marking. Tokens may be missing; if this is "
                f"meant, declare the net with may_stop=True."
            )


def refusal(flat: Flat, status: int, trouble: Any, marking: Any) -> ModelError:
    """A status of the event loop as a sentence that names the activity and the place."""
    time, value = float(trouble[firing.TROUBLE_TIME]), float(trouble[firing.TROUBLE_VALUE])
    activity = _name(flat.activities, trouble[firing.TROUBLE_ACTIVITY])
    place = _name(flat.places, trouble[firing.TROUBLE_PLACE])
    measure = _name(flat.measures, value) if status == firing.UNSTEADY else ""
    sentence = {
        firing.NEGATIVE: f"activity {activity} would leave place {place} with {value:g} tokens",
        firing.NOT_WHOLE: f"activity {activity} would leave place {place} with {value:g} tokens, no whole number",
        firing.BAD_PARAMETER: f"the time of activity {activity} has a parameter that makes no sense: {value:g}",
        firing.BAD_CHANCES: f"the probabilities of activity {activity} do not sum to 1, or one is not from 0 to 1",
        firing.LOOP: f"instantaneous loop: {activity} and others complete without end and without time passing",
        firing.STOPPED: "nothing can happen any more; if this is meant, declare the net with may_stop=True",
        firing.TOO_MANY: "the limit on completions in one replication was reached; raise events_max if this is meant",
        firing.BAD_FLOW: f"fast-forward at {activity}: chances of a split are not from 0 to 1 with a sum of at most 1",
        firing.UNSTEADY: f"fast-forward at {activity} changes measure {measure}, which is integrated over the skipped "
        f"time; measure it by impulses, or do not skip there",
    }[status]
    held = [f"{name} {tokens}" for name, tokens in zip(flat.places, marking.tolist(), strict=False) if tokens]
    told = ", ".join(held[:PLACES_TOLD_MAX]) or "no tokens anywhere"
    more = ", …" if len(held) > PLACES_TOLD_MAX else ""
    return ModelError(f"Net {flat.name!r} at time {time:g}: {sentence}. Marking: {told}{more}.")


def _name(names: tuple[str, ...], number: float) -> str:
    return repr(names[int(number)]) if 0 <= number < len(names) else "(none)"
