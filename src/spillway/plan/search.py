"""The cheapest plan that is as wished, exactly; all plans worth their cost; and what stands in the way of a wish.

**As a mixed-integer program.** A variable x(o, k) in {0, 1} for every option that each operator may have, one of them
1; the cost is their sum, and so is what is written. For quality each operator's options have the share of its samples
that hold, found beforehand, so the wish of ``problem`` is one row. For operators that fail together there is a variable
y(s) in {0, 1} for each sample, which counts its weight, and a row that lets it be 1 only if the sum holds:

    Σ d(o, k, s) · x(o, k)  +  (M - (1 - q)) · y(s)  <=  M          M: the largest sum there can be

HiGHS proves its optimum by branch and bound. It does so within a tolerance, so a plan it gives is looked at in plain
numbers again; one that only seemed to be as wished is forbidden, and the search goes on.

**What is dominated is left out.** An option that costs no less than another one of the same operator, writes no less,
is back no sooner, and leaves no less of any fault, can be in no plan that is better. Where an option is had everywhere
or nowhere, that holds among options of the same name alone. A row for each operator makes it equal to the one before.

**The frontier** is walked upwards: the cheapest plan of all, then the cheapest that leaves a better quality, and so on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix, vstack

from spillway.errors import ModelError
from spillway.plan.problem import EVEN, Choices, Chosen, Floats, Option, Problem, Wishes, fits

FRONTIER_MAX = 60
"""Points of a frontier at most: beyond, they are as good as a line."""

FORBIDDEN_MAX = 100
"""Plans that only seemed to be as wished, at most, before the search gives up: a mistake of ours."""

_STEP = 1e-6  # by which a plan must be better than the last one of a frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A plan with what it costs and the quality it leaves."""

    plan: Chosen
    cost: float
    quality: float


def cheapest(problem: Problem, wishes: Wishes, *, but: Sequence[str] = ()) -> Chosen | None:
    """A plan of least cost among those as wished, leaving aside the wishes named; None if there is none."""
    allowed = [_allowed(choices, wishes, but) for choices in problem.operators]
    if not all(allowed):
        return None
    return _Program(problem, wishes, allowed, but).solved()


def frontier(problem: Problem, wishes: Wishes) -> tuple[Point, ...]:
    """The plans that no other one beats in cost and in quality at the percentile, cheapest first.

    All wishes but that for quality hold for them. Steps of quality below one in a million are taken at once, and there
    are no more than ``FRONTIER_MAX`` points.
    """
    found: list[Point] = []
    least = 0.0
    while len(found) < FRONTIER_MAX:
        plan = cheapest(problem, replace(wishes, quality=min(least, 1.0)))
        if plan is None:
            break
        quality = problem.quality(plan, wishes.percentile)
        point = Point(plan=plan, cost=problem.cost(plan), quality=quality)
        # Of plans that cost the same the last one is the best.
        if found and point.cost <= found[-1].cost + EVEN:
            found.pop()
        found.append(point)
        if quality >= 1.0 - _STEP:
            break
        least = quality + _STEP
    return tuple(found)


def in_the_way(problem: Problem, wishes: Wishes) -> tuple[str, ...]:
    """The wishes each of which alone, if it were given up, would leave a plan; none if no single one is enough."""
    return tuple(name for name in wishes.said() if cheapest(problem, wishes, but=(name,)) is not None)


def undominated(options: Sequence[Option], *, back: bool) -> list[int]:
    """The places of the options that can be in a best plan; ``back`` says whether being back soon counts."""
    kept: list[int] = []
    order = sorted(range(len(options)), key=lambda at: (options[at].cost, sum(options[at].impairments), at))
    for at in order:
        if not any(_dominates(options[better], options[at], back=back) for better in kept):
            kept.append(at)
    return sorted(kept)


def _dominates(better: Option, option: Option, *, back: bool) -> bool:
    return (
        better.everywhere == option.everywhere
        and better.cost <= option.cost
        and better.written_bytes_per_s <= option.written_bytes_per_s
        and (not back or better.back_s <= option.back_s)
        and (better.lossless or not option.lossless)
        and all(b <= o for b, o in zip(better.impairments, option.impairments, strict=True))
    )


def _allowed(choices: Choices, wishes: Wishes, but: Sequence[str]) -> list[int]:
    fitting = [at for at, option in enumerate(choices.options) if fits(option, choices, wishes, but=but)]
    # Each of those left is back soon enough and loses nothing where it must not, so neither counts any more.
    return [fitting[at] for at in undominated([choices.options[at] for at in fitting], back=False)]


class _Program:
    """The mixed-integer program of a problem."""

    def __init__(self, problem: Problem, wishes: Wishes, allowed: Sequence[Sequence[int]], but: Sequence[str]) -> None:
        self._problem = problem
        self._wishes = wishes
        self._but = but
        self._columns = [(place, at) for place, options in enumerate(allowed) for at in options]
        self._options = [problem.operators[place].options[at] for place, at in self._columns]
        quality = wishes.quality if "quality" not in but else None
        joint = problem.together if quality is not None else ()
        self._samples = [
            (group, s) for group in joint for s in range(problem.operators[problem.place(group.operators[0])].samples)
        ]
        self._width = len(self._columns) + len(self._samples)
        self._rows: list[csr_matrix] = []
        self._low: list[float] = []
        self._high: list[float] = []
        for place in range(len(problem.operators)):
            self._row([1.0 if column[0] == place else 0.0 for column in self._columns], low=1.0, high=1.0)
        for name in dict.fromkeys(option.everywhere for option in self._options if option.everywhere):
            self._add_everywhere(name)
        if wishes.bytes_per_hour is not None and "bytes_per_hour" not in but:
            # In proportion to what is allowed, so that the solver's tolerance is one of a share.
            per_s = max(wishes.bytes_per_hour / 3600, EVEN)
            self._row([option.written_bytes_per_s / per_s for option in self._options], high=1.0)
        if quality is not None:
            self._add_quality(quality)

    def solved(self) -> Chosen | None:
        for _ in range(FORBIDDEN_MAX):
            plan = self._solve()
            if plan is None or self._problem.meets(plan, self._wishes, but=self._but):
                return plan
            chosen = [1.0 if plan[place] == at else 0.0 for place, at in self._columns]
            self._row(chosen, high=len(plan) - 1.0)
        raise ModelError("The search for a plan cannot tell plans apart that differ by rounding. Wish for a bit less.")

    def _solve(self) -> Chosen | None:
        costs = np.zeros(self._width)
        costs[: len(self._columns)] = [option.cost for option in self._options]
        scale = float(costs.max()) or 1.0
        found = milp(
            costs / scale,
            integrality=np.ones(self._width),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(vstack(self._rows, format="csr"), self._low, self._high),
            options={"mip_rel_gap": 0.0},
        )
        if found.status == 2:  # there is none
            return None
        if found.x is None:
            raise ModelError(f"The search for a plan was not finished ({found.message}).")
        values: Floats = found.x
        plan = [-1] * len(self._problem.operators)
        for column, (place, at) in enumerate(self._columns):
            if values[column] > 0.5:
                plan[place] = at
        assert min(plan) >= 0, plan
        return tuple(plan)

    def _add_everywhere(self, name: str) -> None:
        """An operator has an option of this name if, and only if, the one before it has."""
        having = [option.everywhere == name for option in self._options]
        for place in range(1, len(self._problem.operators)):
            signs = {place: 1.0, place - 1: -1.0}
            row = [signs.get(at, 0.0) if has else 0.0 for (at, _), has in zip(self._columns, having, strict=True)]
            self._row(row, low=0.0, high=0.0)

    def _add_quality(self, quality: float) -> None:
        problem, most = self._problem, 1 - quality + EVEN
        shares = [
            problem.operators[place].rate / problem.rate * float(np.mean(np.asarray(option.impairments) <= most))
            for (place, _), option in zip(self._columns, self._options, strict=True)
        ]
        for index, (group, s) in enumerate(self._samples):
            members = {problem.place(name) for name in group.operators}
            left = [
                option.impairments[s] if place in members else 0.0
                for (place, _), option in zip(self._columns, self._options, strict=True)
            ]
            largest = sum(max(left[c] for c, (p, _) in enumerate(self._columns) if p == place) for place in members)
            if largest > most:
                self._row(left, sample=(index, largest - most), high=largest)
        weights = [
            group.rate / problem.rate / problem.operators[problem.place(group.operators[0])].samples
            for group, _ in self._samples
        ]
        self._row([*shares, *weights], low=self._wishes.percentile - EVEN)

    def _row(
        self,
        values: Sequence[float],
        *,
        low: float = -np.inf,
        high: float = np.inf,
        sample: tuple[int, float] | None = None,
    ) -> None:
        row: npt.NDArray[np.float64] = np.zeros(self._width)
        row[: len(values)] = values
        if sample is not None:
            row[len(self._columns) + sample[0]] = sample[1]
        self._rows.append(csr_matrix(row))
        self._low.append(low)
        self._high.append(high)


def all_plans(problem: Problem) -> Iterator[Chosen]:
    """Every plan there is: of use for a few operators only."""
    sizes = [len(choices.options) for choices in problem.operators]
    return (tuple(int(at) for at in plan) for plan in np.ndindex(*sizes))
