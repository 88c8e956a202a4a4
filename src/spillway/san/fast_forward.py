"""Fast-forward: skip what a thousand events would do and sample its outcome from its law instead.

Tuples that flow through a stream while nothing is wrong make nearly all events of a long run, and change nothing but
counts. The author of a net says so: *while this predicate holds, each completion of these clocks ends with the marking
as it was, except for these counts*. The engine then jumps.

    forward = net.fast_forward(when=calm, lead=0.05)     # calm: every queue empty, nothing failed
    arrived = forward.arrivals("source.arrive")          # a timed activity: how often it completed in the jump
    kept, = forward.split(arrived, 0.2)                  # each kept with probability 0.2, independently
    forward.adds(stored, kept)                           # so many tokens more in a counting place
    forward.adds(unstable_left, kept, times=-1)          # a countdown: a jump never takes it below `at_least`
    forward.completes("filter.process", arrived)         # impulse rewards of the skipped completions are earned
    passed = forward.rise((seen_a, one), (seen_b, two))  # what a reader of redundant streams lets through

**Theory.** Let the predicate hold when a clock is about to complete at time t, and let u be the time of the first event
that is no clock's: the earliest other timed activity, or the next instant at which a measure begins, ends or is read.
The jump covers [t, u - lead). Clocks complete independently of everything skipped, so how often they do in the jump has
a law of its own: for a deterministic clock a number, for exponential ones a Poisson number. Given that number the flows
split binomially, and are sampled so. After the jump the marking is what it was, counts added; a deterministic clock
keeps its phase, an exponential one has no memory. The last `lead` before u is simulated event by event.

This is *exact* if what a clock completion sets in motion is over within `lead`, whatever happens. If it merely is so
with probability 1 - e, each jump is exact but for e: choose `lead` many times the time to pass through the net.

What is skipped must not decide anything outside: other activities that are enabled while `when` holds must not read a
place that the skipped events write, except through counts, and a measure over an interval must not either. The engine
refuses a measure that does. Chances and bounds are read once, when the jump begins. A countdown place stays at or
above `at_least`, whatever the flows turn out to be, so a deadline counted in tuples is met event by event.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from spillway.errors import ModelError
from spillway.given import is_number, is_whole
from spillway.san.expressions import Constant, Expression, Number, expression
from spillway.san.parts import TOKENS_MAX, Activity, Place

FLOWS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How many of something passed during a jump; a name for a number that is sampled later."""

    index: int
    per_arrival_max: int  # most that one completion of one clock can add


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Each of a flow goes to one of several flows, or nowhere, by its own chance."""

    source: Flow
    chances: tuple[Expression, ...]
    parts: tuple[Flow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A flow that is the sum of others."""

    sources: tuple[Flow, ...]
    target: Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """By how much the largest of several counting places rises if each gains a flow."""

    gains: tuple[tuple[str, Flow], ...]
    target: Flow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Count:
    """Tokens a place gains (or loses) by a flow; it never falls below `at_least`."""

    place: str
    flow: Flow
    times: int
    at_least: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A flow that stands for completions of an activity in one of its cases."""

    activity: str
    case: int
    flow: Flow


@dataclass(slots=True, kw_only=True, eq=False)
class FastForward:
    """The law of what may be skipped while `when` holds. Made by `Net.fast_forward`; see the module."""

    when: Expression
    lead: float
    activities: dict[str, Activity]
    places: dict[str, Place]
    clocks: dict[str, Flow] = field(default_factory=dict)
    steps: list[Split | Merge | Rise] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    flows: int = 0

    def __post_init__(self) -> None:
        if not is_number(self.lead, least=0):
            raise ModelError(f"Fast-forward: a lead of 0 or more, finite, is wanted; got {self.lead!r}.")

    def arrivals(self, clock: str | Activity) -> Flow:
        """The completions of a timed activity, deterministic or exponential with a fixed parameter."""
        activity = self._activity(clock)
        kind = type(activity.distribution).__name__
        fixed = activity.distribution is not None and all(
            isinstance(parameter, Constant) for parameter in activity.distribution.parameters()
        )
        if kind not in ("Deterministic", "Exponential") or not fixed:
            raise ModelError(
                f"Fast-forward: activity {activity.name!r} cannot be a clock; its time must be Deterministic or "
                f"Exponential with a fixed parameter."
            )
        if activity.name not in self.clocks:
            self.clocks[activity.name] = self._flow(1)
        return self.clocks[activity.name]

    def split(self, flow: Flow, *chances: Number) -> tuple[Flow, ...]:
        """Send each of a flow one of several ways; with what is left to 1 it goes nowhere."""
        given = tuple(map(expression, chances))
        fixed = [chance.number for chance in given if isinstance(chance, Constant)]
        if any(not 0 <= chance <= 1 for chance in fixed) or math.fsum(fixed) > 1 + 1e-9:
            raise ModelError(f"Fast-forward: chances from 0 to 1 with a sum of at most 1 are wanted; got {fixed}.")
        parts = tuple(self._flow(flow.per_arrival_max) for _ in given)
        self.steps.append(Split(source=flow, chances=given, parts=parts))
        return parts

    def merge(self, *flows: Flow) -> Flow:
        """The sum of flows; one named twice counts twice."""
        target = self._flow(sum(flow.per_arrival_max for flow in flows))
        self.steps.append(Merge(sources=flows, target=target))
        return target

    def rise(self, *gains: tuple[Place, Flow]) -> Flow:
        """By how much the largest of several counting places rises if each gains its flow.

        This is what a reader passes that counts redundant streams and takes only what runs ahead of all others. The
        flows are sampled first; say with `adds` that the places gain them.
        """
        for place, _ in gains:
            if place.name not in self.places:
                raise ModelError(f"Fast-forward: place {place.name!r} is not in the net.")
        target = self._flow(max(flow.per_arrival_max for _, flow in gains))
        self.steps.append(Rise(gains=tuple((place.name, flow) for place, flow in gains), target=target))
        return target

    def adds(self, place: Place, flow: Flow, *, times: int = 1, at_least: Number = 0) -> None:
        """A place gains `times` tokens for each of a flow; if negative, no jump takes it below `at_least`."""
        if place.name not in self.places:
            raise ModelError(f"Fast-forward: place {place.name!r} is not in the net.")
        if not is_whole(times, least=-TOKENS_MAX, most=TOKENS_MAX):
            raise ModelError(f"Fast-forward: {place.name!r} changes by a whole number of tokens; got {times!r}.")
        self.counts.append(Count(place=place.name, flow=flow, times=times, at_least=expression(at_least)))

    def completes(self, activity: str | Activity, flow: Flow, *, case: int = 0) -> None:
        """A flow stands for completions of an activity: measures that count those are credited."""
        found = self._activity(activity)
        if not 0 <= case < len(found.outcomes):
            raise ModelError(f"Fast-forward: activity {found.name!r} has no case {case}.")
        self.completions.append(Completion(activity=found.name, case=case, flow=flow))

    def expressions(self) -> Sequence[Expression]:
        """All it reads, for the check that every place exists."""
        chances = [chance for step in self.steps if isinstance(step, Split) for chance in step.chances]
        return [self.when, *chances, *(count.at_least for count in self.counts)]

    def _activity(self, activity: str | Activity) -> Activity:
        name = activity if isinstance(activity, str) else activity.name
        if name not in self.activities:
            raise ModelError(f"Fast-forward: activity {name!r} is not in the net.")
        return self.activities[name]

    def _flow(self, per_arrival_max: int) -> Flow:
        if self.flows >= FLOWS_MAX:
            raise ModelError(f"Fast-forward: at most {FLOWS_MAX} flows.")
        self.flows += 1
        return Flow(index=self.flows - 1, per_arrival_max=per_arrival_max)
