"""A net and its measures as tables of numbers: what the event loop reads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spillway.san import random_numbers
from spillway.san import tables as t
from spillway.san.assignments import added, added_if_ahead, added_place, written
from spillway.san.bounds import enabling, paired
from spillway.san.derived import Derived
from spillway.san.distributions import (
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Normal,
    Uniform,
    Weibull,
)
from spillway.san.expressions import Constant, Expression, expression
from spillway.san.fast_forward import FastForward
from spillway.san.fast_forward_tables import flatten_forwards
from spillway.san.net import Net
from spillway.san.parts import Activity, Arc, Assignment, Outcome
from spillway.san.programs import NONE, Programs
from spillway.san.rewards import AtInstant, Completed, Impulses, Measure, OverInterval, TimeAverage, check_measures
from spillway.san.waking import changes, wants

EVENTS_MAX = 100_000_000_000  # in one replication: hours of computing
CHAIN_MAX = 1_000_000  # instantaneous completions without time passing

_KINDS = {
    Exponential: random_numbers.EXPONENTIAL,
    Deterministic: random_numbers.DETERMINISTIC,
    Uniform: random_numbers.UNIFORM,
    Normal: random_numbers.NORMAL,
    Weibull: random_numbers.WEIBULL,
    Erlang: random_numbers.ERLANG,
    Empirical: random_numbers.EMPIRICAL,
}
Action = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A net ready to run, and the names of what its numbers stand for."""

    name: str
    tables: t.Tables
    places: tuple[str, ...]
    activities: tuple[str, ...]
    cases: tuple[tuple[str, int], ...]  # activity and case in it
    measures: tuple[str, ...]
    lengths: tuple[float, ...]  # what each measure's sum is divided by


def flatten(
    net: Net,
    measures: Sequence[Measure],
    *,
    fast_forward: bool = True,
    events_max: int = EVENTS_MAX,
    chain_max: int = CHAIN_MAX,
) -> Flat:
    """Number everything and write the tables; without `fast_forward` nothing will be skipped."""
    check_measures(net, list(measures))
    forwards = net.forwards if fast_forward else []
    return _Flattening(net, list(measures), forwards, events_max=events_max, chain_max=chain_max).flat()


@dataclass(slots=True)
class _Rows:
    """The tables under construction."""

    activities: list[list[int]] = field(default_factory=list)
    parameters: list[list[float]] = field(default_factory=list)
    cases: list[list[int]] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)
    bounds: list[tuple[int, int, int]] = field(default_factory=list)
    pairs: list[tuple[int, int, int]] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    aheads: list[Action] = field(default_factory=list)
    wakes: list[tuple[int, int, int, int]] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    cumulated: list[float] = field(default_factory=list)
    impulses: list[tuple[int, int]] = field(default_factory=list)
    earnings: list[float] = field(default_factory=list)

    def listed(self, entries: Sequence[int]) -> tuple[int, int]:
        """Add a list; returns where it begins and ends."""
        self.lists += entries
        return len(self.lists) - len(entries), len(self.lists)


class _Flattening:
    def __init__(
        self, net: Net, measures: list[Measure], forwards: list[FastForward], *, events_max: int, chain_max: int
    ) -> None:
        self.net = net
        self.forwards = forwards
        self.measures = measures
        self.limits = (events_max, chain_max)
        ordered = sorted(net.activities.values(), key=lambda activity: not activity.timed)  # keeps order within a kind
        self.activities = ordered
        self.number = {activity.name: i for i, activity in enumerate(ordered)}
        self.places = {name: i for i, name in enumerate(net.places)}
        # What a jump counts is written by no completion, so nothing would notice that it changed.
        counted = {count.place for forward in forwards for count in forward.counts}
        rare = frozenset(name for name, place in net.places.items() if place.rarely) - counted
        self.rare_numbers = {self.places[name] for name in rare}
        self.derived = Derived(rare=rare, places=self.places)
        self.programs = Programs(places=self.places, derived=self.derived)
        self.rows = _Rows()
        first_marking = {name: place.tokens for name, place in net.places.items()}
        self.wants = [wants(activity, self.places, first_marking) for activity in ordered]
        self.writes: list[set[int]] = []  # by each case
        self.chances: list[Expression] = []  # of each case
        self.first_case = dict(
            zip(self.number, np.cumsum([0, *(len(activity.outcomes) for activity in ordered)]).tolist(), strict=False)
        )
        # For each place, who must be looked at when it changes: instantaneous and timed activities, measures.
        self.readers: tuple[list[set[int]], ...] = tuple([set() for _ in net.places] for _ in range(3))
        for i, activity in enumerate(ordered):
            for place in activity.reads() if activity.timed else activity.enabling():
                self.readers[1 if activity.timed else 0][self.places[place]].add(i)
        for i, measure in enumerate(measures):
            # One that is read at an instant need not be followed until then.
            if isinstance(measure, OverInterval):
                for place in expression(measure.value).places():
                    self.readers[2][self.places[place]].add(i)

    def flat(self) -> Flat:
        measured = [
            NONE if isinstance(measure, Impulses) else self.programs.add(expression(measure.value))
            for measure in self.measures
        ]
        clocks = {clock for forward in self.forwards for clock in forward.clocks}
        for activity in self.activities:
            self._activity(activity, is_clock=activity.name in clocks)
        forwards = flatten_forwards(self.forwards, self.programs, self.places, self.number, self.first_case)
        step_times, steps = self._steps()
        derived = self._derive()
        self._keep_chances()
        rows, programs = self.rows, self.programs
        timed = sum(activity.timed for activity in self.activities)
        tables = t.Tables(
            marking=np.array([*(place.tokens for place in self.net.places.values()), *derived.values()], np.int64),
            activities=_table(rows.activities, t.ACTIVITY_COLUMNS),
            parameters=np.array(rows.parameters, np.float64).reshape(-1, 3),
            cases=_table(rows.cases, t.CASE_COLUMNS),
            chances=np.array(rows.chances, np.float64),
            bounds=_table(rows.bounds, 3),
            pairs=_table(rows.pairs, 3),
            derived=_table(list(derived), 2),
            aheads=_table(rows.aheads, 3),
            actions=_table(rows.actions, 3),
            wakes=_table(rows.wakes, 4),
            lists=np.array(rows.lists, np.int64),
            code=_table(programs.code, 2),
            numbers=np.array(programs.numbers, np.float64),
            values=np.array(rows.values, np.float64),
            cumulated=np.array(rows.cumulated, np.float64),
            measures=np.array(measured, np.int64),
            impulses=_table(rows.impulses, 2),
            earnings=np.array(rows.earnings, np.float64),
            step_times=step_times,
            steps=steps,
            forwards=_table(forwards.forwards, t.FORWARD_COLUMNS),
            leads=np.array(forwards.leads, np.float64),
            clocks=_table(forwards.clocks, 2),
            flow_steps=_table(forwards.flow_steps, 4),
            counts=_table(forwards.counts, 5),
            completions=_table(forwards.completions, 2),
            limits=np.array([timed, programs.depth + 2, self.net.may_stop, *self.limits], np.int64),
        )
        return Flat(
            name=self.net.name,
            tables=tables,
            places=tuple(self.net.places),
            activities=tuple(self.number),
            cases=tuple((each.name, case) for each in self.activities for case in range(len(each.outcomes))),
            measures=tuple(measure.name for measure in self.measures),
            lengths=tuple(map(_length, self.measures)),
        )

    def _activity(self, activity: Activity, *, is_clock: bool) -> None:
        rows = self.rows
        bounds, rest = enabling(activity)
        first_bound = len(rows.bounds)
        rows.bounds += [(self.places[place], low, high) for place, (low, high) in bounds.items()]
        pairs = [(predicate, paired(predicate)) for predicate in rest]
        first_pair = len(rows.pairs)
        rows.pairs += [(self.places[pair[0]], self.places[pair[1]], pair[2]) for _, pair in pairs if pair is not None]
        whens = rows.listed([self.programs.add(predicate) for predicate, pair in pairs if pair is None])
        parameters = () if activity.distribution is None else activity.distribution.parameters()
        fixed = [each.number if isinstance(each, Constant) else math.nan for each in parameters] + [0.0, 0.0]
        computed = [NONE if isinstance(each, Constant) else self.programs.add(each) for each in parameters]
        computed += [NONE, NONE]
        first_value = len(rows.values)
        if isinstance(activity.distribution, Empirical):
            rows.values += activity.distribution.values
            rows.cumulated += np.cumsum(activity.distribution.weights or ()).tolist()
        predicate = activity.reactivate_when
        watched = activity.reads() if predicate is not None else set(activity.reactivate_on)
        watches = rows.listed(sorted(self.places[place] for place in watched))
        first_case = len(rows.cases)
        all_fixed = all(isinstance(outcome.chance, Constant) for outcome in activity.outcomes)
        cumulated = 0.0
        for case, outcome in enumerate(activity.outcomes):
            cumulated += outcome.chance.number if isinstance(outcome.chance, Constant) else 0.0
            last = case == len(activity.outcomes) - 1
            # The last case takes what rounding left, so that a case is always found.
            rows.chances.append(1.0 if last else cumulated)
            self._case(activity, case, outcome, chance=NONE if all_fixed else self.programs.add(outcome.chance))
            self.chances.append(outcome.chance)
        rows.parameters.append([*fixed[:2], activity.weight])
        rows.activities.append(
            [
                random_numbers.INSTANT if activity.distribution is None else _KINDS[type(activity.distribution)],
                activity.priority,
                first_bound,
                len(rows.bounds),
                *whens,
                first_case,
                len(rows.cases),
                *computed[:2],
                first_value,
                len(rows.values),
                *watches,
                NONE if predicate is None else self.programs.add(predicate),
                int(is_clock),
                first_pair,
                len(rows.pairs),
            ]
        )

    def _case(self, activity: Activity, case: int, outcome: Outcome, *, chance: int) -> None:
        rows = self.rows
        actions = self._actions(activity, outcome)
        rows.actions += actions
        writes = {place for _, place, _ in actions}
        instants, timed, measures = (
            set().union(*(readers[place] for place in writes)) if writes else set() for readers in self.readers
        )
        if activity.timed:
            timed = timed | {self.number[activity.name]}
        changed = changes(actions)
        first_wake = len(rows.wakes)
        may_begin = {number for number in instants if self.wants[number].may_begin(changed)}
        rows.wakes += [(number, *self.wants[number].first(changed)) for number in sorted(may_begin)]
        first_impulse = len(rows.impulses)
        for i, measure in enumerate(self.measures):
            if not isinstance(measure, Impulses):
                continue
            earned = measure.earnings()
            keys: tuple[Completed, ...] = (activity.name, (activity.name, case))
            for value in [earned[key] for key in keys if key in earned]:
                fixed = isinstance(value, Constant)
                rows.impulses.append((i, NONE if fixed else self.programs.add(value)))
                rows.earnings.append(value.number if isinstance(value, Constant) else 0.0)
        self.writes.append(writes)
        # What is computed for a place that rarely changes is compared with what it held; for all else, it is a change.
        sure = {place for what, place, _ in actions if what != t.COMPUTE_RARE}
        rows.cases.append(
            [
                self.number[activity.name],
                chance,
                len(rows.actions) - len(actions),
                len(rows.actions),
                first_wake,
                len(rows.wakes),
                *rows.listed(sorted(instants - may_begin)),
                *rows.listed(sorted(timed)),
                *rows.listed(sorted(measures)),
                first_impulse,
                len(rows.impulses),
                *(0,) * (t.SURE - t.DERIVED),
                int(any(self.readers[2][place] or place in self.rare_numbers for place in sure)),
            ]
        )

    def _derive(self) -> dict[tuple[int, int], int]:
        """Number and program of each derived place, and its value at the start; tells every case which it upsets.

        Last of all, when it is known which there are.
        """
        first = {name: place.tokens for name, place in self.net.places.items()}
        found: dict[tuple[int, int], int] = {}
        upset: list[list[int]] = [[] for _ in self.rows.cases]
        for row, derived in enumerate(self.derived.found.values()):
            read = {self.places[place] for place in derived.of.places()}
            for case in self._upset_by(read):
                upset[case].append(row)
            found[derived.number, self.programs.add(derived.of, as_it_is=True)] = int(derived.of.value(first))
        for case, rows in enumerate(upset):
            self.rows.cases[case][t.DERIVED : t.DERIVED_END + 1] = self.rows.listed(rows)
        return found

    def _keep_chances(self) -> None:
        """Keep probabilities that read only places that rarely change, and tell every case which it upsets."""
        refreshed: list[list[int]] = [[] for _ in self.rows.cases]
        for number, chance in enumerate(self.chances):
            read = set(chance.places())
            row = self.rows.cases[number]
            if row[t.CHANCE] == NONE or not read <= self.derived.rare:
                continue
            row[t.KEPT] = 1
            for case in self._upset_by({self.places[place] for place in read}):
                refreshed[case].append(number)
        for case, numbers in enumerate(refreshed):
            self.rows.cases[case][t.REFRESHES : t.REFRESHES_END + 1] = self.rows.listed(numbers)

    def _upset_by(self, read: set[int]) -> list[int]:
        """The cases that write one of some places."""
        return [case for case, writes in enumerate(self.writes) if read & writes]

    def _actions(self, activity: Activity, outcome: Outcome) -> list[Action]:
        """What a completion does, in order; neighbouring plain moves are added up first."""
        actions: list[Action] = []
        moved: dict[int, int] = {}
        # One that changes what derived places read must not read them, as long as it is at it.
        as_it_is = any(self.net.places[place].rarely for place in written(activity, outcome))

        def settle() -> None:
            actions.extend((t.ADD_TOKENS, place, tokens) for place, tokens in moved.items() if tokens)
            moved.clear()

        def move(place: str, tokens: int) -> None:
            moved[self.places[place]] = moved.get(self.places[place], 0) + tokens

        def assign(assignment: Assignment) -> None:
            constant = added(assignment)
            if constant is not None:
                move(assignment.place, constant)
                return
            settle()
            place = self.places[assignment.place]
            to = assignment.to if as_it_is else self.derived.within(assignment.to)
            if place in self.rare_numbers:
                actions.append((t.COMPUTE_RARE, place, self.programs.add(to, as_it_is=True)))
            elif isinstance(to, Constant) and to.number == math.floor(to.number) >= 0:
                actions.append((t.SET_TOKENS, place, int(to.number)))
            elif (other := added_place(assignment.place, to)) is not None and self.derived.never_negative(other):
                actions.append((t.ADD_PLACE, place, self.places[other]))
            elif (ahead := added_if_ahead(assignment.place, to)) is not None and self.derived.never_negative(ahead[2]):
                actions.append((t.ADD_AHEAD, place, len(self.rows.aheads)))
                self.rows.aheads.append((self.places[ahead[0]], self.places[ahead[1]], self.places[ahead[2]]))
            else:
                actions.append((t.COMPUTE_TOKENS, place, self.programs.add(to, as_it_is=True)))

        for arc in activity.arcs:
            move(arc.place, -arc.tokens)
        for gate in activity.gates:
            for assignment in gate.does:
                assign(assignment)
        for output in outcome.outputs:
            if isinstance(output, Arc):
                move(output.place, output.tokens)
            else:
                for assignment in output.does:
                    assign(assignment)
        settle()
        return actions

    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """When which measure opens, closes or is read, in order of time; the last one ends the replication."""
        steps: list[tuple[float, int, int]] = []
        for i, measure in enumerate(self.measures):
            if isinstance(measure, AtInstant):
                steps.append((measure.at, t.READ, i))
            else:
                steps += [(measure.start, t.OPEN, i), (measure.end, t.CLOSE, i)]
        steps.sort()
        return np.array([time for time, _, _ in steps], np.float64), _table([(what, i) for _, what, i in steps], 2)


def _length(measure: Measure) -> float:
    return measure.end - measure.start if isinstance(measure, TimeAverage) else 1.0


def _table(rows: Sequence[Sequence[int]], columns: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, columns)
