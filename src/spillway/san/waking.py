"""Whom a completion may enable, and whom it can only disable: worked out from the sign of what it does to each place.

**Theory.** An activity that wants tokens in a place cannot become enabled by tokens being taken from it, and one that
wants no more than so many not by tokens being added. So of the instantaneous activities that read what a completion
writes, those that it can only disable matter only if they are enabled, which few are at any time. Of the others one
bound is looked at first, and mostly nothing else: one that the completion does not touch and that a net at its start
does not keep, such as a tuple that waits. Whoever takes the next tuple has what the completion gave; the tuple lacks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spillway.san import tables as t
from spillway.san.bounds import enabling, paired
from spillway.san.parts import TOKENS_MAX, Activity

Bound = tuple[int, int, int]
"""A place, and the least and the most tokens it may hold."""

ANY: Bound = (0, 0, TOKENS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The places that a completion may add tokens to, and take them from, by their numbers."""

    up: frozenset[int]
    down: frozenset[int]


def changes(actions: Iterable[tuple[int, int, int]]) -> Changes:
    """What the actions of a case do."""
    up, down = set(), set()
    for what, place, how in actions:
        if what in (t.ADD_PLACE, t.ADD_AHEAD) or (what == t.ADD_TOKENS and how > 0):
            up.add(place)
        elif what == t.ADD_TOKENS:
            down.add(place)
        else:
            up.add(place)
            down.add(place)
    return Changes(up=frozenset(up), down=frozenset(down))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What an activity wants of places, by their numbers."""

    bounds: tuple[Bound, ...]
    together: frozenset[int]  # which hold no more than so many together with another
    other: frozenset[int]  # which some other predicate reads
    unmet: frozenset[int]  # whose bound does not hold in the first marking

    def may_begin(self, changes: Changes) -> bool:
        """Whether it can become enabled by these changes."""
        wanted = {place for place, low, _ in self.bounds if low > 0} | self.other
        limited = {place for place, _, high in self.bounds if high < TOKENS_MAX} | self.together | self.other
        return bool(wanted & changes.up or limited & changes.down)

    def first(self, changes: Changes) -> Bound:
        """The bound that is likeliest to fail after these changes; any marking will do if there is none."""
        touched = changes.up | changes.down
        return min(
            self.bounds, key=lambda bound: (bound[0] in touched, bound[0] not in self.unmet), default=ANY
        )  # the first of equals


def wants(activity: Activity, places: Mapping[str, int], first_marking: Mapping[str, int]) -> Wants:
    """What an activity wants."""
    bounds, rest = enabling(activity)
    pairs = [paired(predicate) for predicate in rest]
    return Wants(
        bounds=tuple((places[place], low, high) for place, (low, high) in bounds.items()),
        together=frozenset(places[place] for pair in pairs if pair is not None for place in pair[:2]),
        other=frozenset(
            places[place]
            for predicate, pair in zip(rest, pairs, strict=True)
            if pair is None
            for place in predicate.places()
        ),
        unmet=frozenset(
            places[place] for place, (low, high) in bounds.items() if not low <= first_marking[place] <= high
        ),
    )
