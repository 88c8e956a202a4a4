"""Declare a stochastic activity network: places with tokens, activities that move them, gates, cases.

**A queue that may break.**

>>> from spillway.san import Case, Deterministic, Exponential, Net
>>> net = Net("queue")
>>> queue, alive, lost = net.place("queue"), net.place("alive", tokens=1), net.place("lost")
>>> arrive = net.timed("arrive", Exponential(0.9), inputs=[queue < 50], outputs=[queue])
>>> serve = net.timed("serve", Deterministic(1.0), inputs=[queue, alive == 1])
>>> crash = net.timed("crash", Exponential(1e-3), inputs=[alive],
...                   cases=[Case(0.8), Case(0.2, outputs=[lost.add(queue), queue.set(0)])])
>>> repair = net.timed("repair", Exponential(0.1), inputs=[alive == 0], outputs=[alive])
>>> print(net)
net 'queue': 3 places, 4 timed and 0 instantaneous activities

**Inputs** are places (one token taken), pairs `(place, 3)`, expressions (a predicate that must hold) and `InputGate`s
(a predicate and assignments). **Outputs** are places, pairs, assignments such as `place.set(0)` or `place.add(other)`,
and `OutputGate`s. An activity has outputs, or `cases` with probabilities and outputs each.

**What happens, exactly.** An activity is enabled while its input places hold the tokens and its predicates are true.
When it completes, in this order: a case is chosen by the probabilities in the present marking; input tokens are taken;
assignments of input gates run; outputs take effect one after the other. Then, as long as an instantaneous activity is
enabled, the one of highest priority completes, one of equals chosen in proportion to its weight. A marking with no
instantaneous activity enabled is *stable*; only stable markings last. Timed activities see only those: one that stays
enabled from one stable marking to the next goes on; one that is no longer enabled is abandoned; one that is newly
enabled, or has just completed, samples its time. Of two that are due at the same time the one declared first completes
first.

**Reactivation**: `reactivate=` takes a list of places (sample the time anew whenever one of them has changed) or a
predicate (sample it anew in every stable marking where it holds, reached by a change of a place the activity reads).

**Refused**: unknown places, a name given twice, negative tokens, probabilities that do not sum to 1, rates not above 0,
an instantaneous activity with no input. What depends on the marking is checked while the net runs, with the same words:
an instantaneous loop, a place that would go negative, a net in which nothing can happen any more (unless the net
`may_stop`).

Nets are composed by `join` and `replicate` of `spillway.san.composition`; skipping dull stretches exactly is declared
by `fast_forward`, explained in `spillway.san.fast_forward`.
"""

import math
from collections.abc import Sequence

from spillway.errors import ModelError
from spillway.given import is_name, is_number, is_whole
from spillway.san.distributions import Distribution
from spillway.san.expressions import Constant, Expression, Number, expression
from spillway.san.fast_forward import FastForward
from spillway.san.parts import TOKENS_MAX, Activity, Case, Input, Output, Place, outcome, parted

PLACES_MAX = 100_000
ACTIVITIES_MAX = 100_000
PRIORITY_MAX = 1_000_000
_NAME_LENGTH_MAX = 300


class Net:
    """A net under declaration; `may_stop` says that a marking in which nothing can happen is meant."""

    def __init__(self, name: str, *, may_stop: bool = False) -> None:
        _check_name("net", name)
        self.name = name
        self.may_stop = may_stop
        self.places: dict[str, Place] = {}
        self.activities: dict[str, Activity] = {}
        self.forwards: list[FastForward] = []

    def place(self, name: str, tokens: int = 0, *, rarely: bool = False) -> Place:
        """A new place and how many tokens it starts with.

        `rarely` says that it changes rarely beside how often it is read. It makes a simulation faster, and changes
        nothing else.
        """
        _check_name("place", name)
        if name in self.places:
            raise ModelError(f"Net {self.name!r}: place {name!r} exists already; give it another name.")
        if not is_whole(tokens, least=0, most=TOKENS_MAX):
            raise ModelError(
                f"Net {self.name!r}: place {name!r} starts with a whole number of tokens, 0 or more; got {tokens!r}."
            )
        if len(self.places) >= PLACES_MAX:
            raise ModelError(f"Net {self.name!r}: at most {PLACES_MAX} places.")
        self.places[name] = Place(name=name, tokens=tokens, rarely=rarely)
        return self.places[name]

    def timed(
        self,
        name: str,
        distribution: Distribution,
        *,
        inputs: Sequence[Input] = (),
        outputs: Sequence[Output] = (),
        cases: Sequence[Case] = (),
        reactivate: Sequence[Place] | Expression = (),
    ) -> Activity:
        """A new activity that takes time."""
        if not isinstance(distribution, Distribution):
            raise ModelError(
                f"Activity {name!r}: a distribution such as Exponential(2.0) is wanted; got {distribution!r}."
            )
        return self.add(self._declared(name, distribution, inputs, outputs, cases, reactivate=reactivate))

    def instant(
        self,
        name: str,
        *,
        inputs: Sequence[Input],
        outputs: Sequence[Output] = (),
        cases: Sequence[Case] = (),
        priority: int = 0,
        weight: float = 1.0,
    ) -> Activity:
        """A new activity that takes no time: it completes as soon as it is enabled, higher priority first."""
        return self.add(self._declared(name, None, inputs, outputs, cases, priority=priority, weight=weight))

    def fast_forward(self, *, when: Number, lead: float) -> FastForward:
        """Declare what may be skipped while `when` holds (see `san.fast_forward`); the first that holds applies."""
        forward = FastForward(when=expression(when), lead=lead, activities=self.activities, places=self.places)
        self.forwards.append(forward)
        return forward

    def __getitem__(self, name: str) -> Place:
        """The place of this name."""
        if name not in self.places:
            raise ModelError(f"Net {self.name!r} has no place {name!r}.")
        return self.places[name]

    def __str__(self) -> str:
        timed = sum(activity.timed for activity in self.activities.values())
        instants = len(self.activities) - timed
        return f"net {self.name!r}: {len(self.places)} places, {timed} timed and {instants} instantaneous activities"

    def add(self, activity: Activity) -> Activity:
        """Take in an activity that is made already; composition does."""
        _check_name("activity", activity.name)
        if activity.name in self.activities:
            raise ModelError(f"Net {self.name!r}: activity {activity.name!r} exists already; give it another name.")
        if len(self.activities) >= ACTIVITIES_MAX:
            raise ModelError(f"Net {self.name!r}: at most {ACTIVITIES_MAX} activities.")
        for place in activity.mentions():
            if place not in self.places:
                raise ModelError(f"Activity {activity.name!r}: place {place!r} is not in net {self.name!r}.")
        if not activity.timed and not activity.arcs and not activity.gates:
            raise ModelError(
                f"Instantaneous activity {activity.name!r} has no input: it would complete forever without time "
                f"passing; give it an input place or a predicate."
            )
        chances = [outcome.chance for outcome in activity.outcomes]
        fixed = [chance.number for chance in chances if isinstance(chance, Constant)]
        if len(fixed) == len(chances) and abs(math.fsum(fixed) - 1) > 1e-9:
            raise ModelError(
                f"Activity {activity.name!r}: probabilities sum to {math.fsum(fixed):g}, not to 1: {fixed}."
            )
        self.activities[activity.name] = activity
        return activity

    def _declared(
        self,
        name: str,
        distribution: Distribution | None,
        inputs: Sequence[Input],
        outputs: Sequence[Output],
        cases: Sequence[Case],
        *,
        priority: int = 0,
        weight: float = 1.0,
        reactivate: Sequence[Place] | Expression = (),
    ) -> Activity:
        if outputs and cases:
            raise ModelError(f"Activity {name!r}: outputs or cases, not both; give each case its outputs.")
        try:
            arcs, gates = parted(inputs)
            outcomes = tuple(outcome(case) for case in cases or [Case(1.0, outputs)])
            if not is_number(weight, above=0):
                raise ModelError(f"A weight is a number above 0, finite; got {weight!r}.")
            if not is_whole(priority, least=-PRIORITY_MAX, most=PRIORITY_MAX):
                raise ModelError(
                    f"A priority is a whole number of at most {PRIORITY_MAX} either way; got {priority!r}."
                )
        except ModelError as error:
            raise ModelError(f"Activity {name!r}: {error}") from error
        # A place is an expression too, but a lone place was hardly meant as a predicate.
        predicate = expression(reactivate) if isinstance(reactivate, Expression) else None
        places = () if isinstance(reactivate, Expression) else tuple(place.name for place in reactivate)
        return Activity(
            name=name,
            distribution=distribution,
            priority=priority,
            weight=float(weight),
            arcs=arcs,
            gates=gates,
            outcomes=outcomes,
            reactivate_when=predicate,
            reactivate_on=places,
        )


def _check_name(what: str, name: object) -> None:
    if not is_name(name, length_max=_NAME_LENGTH_MAX, allows=lambda c: not c.isspace()):
        raise ModelError(f"A {what} is named without spaces, with at most {_NAME_LENGTH_MAX} characters; got {name!r}.")
