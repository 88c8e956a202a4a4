"""The plan found costs what the best of all plans costs, and a frontier is one."""

import itertools

import pytest
from tests.plan.generated import generated, weights_add_up

from spillway.errors import ModelError
from spillway.plan.problem import EVEN, Choices, Option, Problem, Together, Wishes
from spillway.plan.search import all_plans, cheapest, frontier, in_the_way, undominated

SMALL = [(seed, 5 + seed % 2, 3, seed % 3, 0 if seed % 2 else 2) for seed in range(24)]
LARGE = [
    (100, 12, 4, 2, 0), (101, 20, 4, 3, 2), (102, 30, 5, 0, 0), (103, 40, 5, 0, 2), (104, 40, 4, 4, 0),
    (105, 25, 6, 2, 1),
]  # fmt: skip


@pytest.mark.parametrize(("seed", "operators", "options", "hosts", "everywhere"), SMALL)
def test_the_plan_found_is_the_best_of_all(
    seed: int, operators: int, options: int, hosts: int, everywhere: int
) -> None:
    made = generated(seed, operators=operators, options=options, hosts=hosts, everywhere=everywhere)
    problem, wishes = made.problem, made.wishes
    assert weights_add_up(problem)
    fitting = [plan for plan in all_plans(problem) if problem.meets(plan, wishes)]
    found = cheapest(problem, wishes)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert problem.meets(found, wishes)
    assert problem.cost(found) == pytest.approx(min(map(problem.cost, fitting)), abs=1e-6)


@pytest.mark.parametrize(("seed", "operators", "options", "hosts", "everywhere"), LARGE)
def test_no_plan_close_to_the_one_found_is_better(
    seed: int, operators: int, options: int, hosts: int, everywhere: int
) -> None:
    made = generated(seed, operators=operators, options=options, hosts=hosts, everywhere=everywhere)
    problem, wishes = made.problem, made.wishes
    found = cheapest(problem, wishes)
    if found is None:
        assert not problem.meets((options - 1,) * operators, wishes)
        return
    assert problem.meets(found, wishes)
    cost = problem.cost(found)
    for number in range(options, options + everywhere):
        whole = (number,) * operators
        assert not problem.meets(whole, wishes) or problem.cost(whole) >= cost - 1e-6
    for first, second in itertools.combinations(range(operators), 2):
        for one, other in itertools.product(range(options), repeat=2):
            near = list(found)
            near[first], near[second] = one, other
            if problem.cost(tuple(near)) < cost - 1e-6:
                assert not problem.meets(tuple(near), wishes), (near, found)


def test_generated_problems_have_plans_and_have_none() -> None:
    """Or the tests above would show nothing."""
    plans = [
        cheapest(made.problem, made.wishes)
        for made in (generated(seed, operators=operators, options=options, hosts=hosts, everywhere=everywhere)
                     for seed, operators, options, hosts, everywhere in SMALL + LARGE)
    ]  # fmt: skip
    whole = [
        plan for (*_, options, _, _), plan in zip(SMALL + LARGE, plans, strict=True) if plan and plan[0] >= options
    ]
    assert 2 <= len(whole) < len(plans) / 2
    assert sum(plan is None for plan in plans) >= 2
    assert sum(plan is not None and any(plan) for plan in plans) >= 20


@pytest.mark.parametrize("seed", range(4))
def test_a_frontier_is_that_of_all_plans(seed: int) -> None:
    made = generated(seed, operators=4, options=3, hosts=seed % 2)
    problem, wishes = made.problem, Wishes(percentile=0.9)
    points = frontier(problem, wishes)
    every = [(problem.cost(plan), problem.quality(plan, 0.9)) for plan in all_plans(problem)]
    best = []
    for cost, quality in sorted(every, key=lambda each: (each[0], -each[1])):
        if not best or quality > best[-1][1] + 1e-6:
            best.append((cost, quality))
    assert [(round(point.cost, 6), round(point.quality, 6)) for point in points] == [
        (round(cost, 6), round(quality, 6)) for cost, quality in best
    ]


def two(*, cheap_left: float = 0.1, together: bool = False) -> Problem:
    """Two operators, each restarted for nothing or replicated for 2."""
    restart = Option(name="restart", cost=0.0, impairments=(cheap_left, cheap_left), back_s=16.0)
    replica = Option(name="replica", cost=2.0, impairments=(0.0, 0.0), written_bytes_per_s=10.0, back_s=2.0)
    kept = Option(name="kept", cost=5.0, impairments=(0.0, 0.0), back_s=20.0, lossless=True)
    operators = tuple(Choices(operator=name, options=(restart, replica, kept)) for name in ("a", "b"))
    return Problem(
        operators=operators,
        together=(Together(name="host", operators=("a", "b"), rate=1.0),) if together else (),
    )


def test_operators_that_fail_together_add_up() -> None:
    alone = Wishes(quality=0.85, percentile=1.0)
    assert cheapest(two(), alone) == (0, 0)
    found = cheapest(two(together=True), alone)
    assert found in ((0, 1), (1, 0))  # 0.1 and 0.1 are more than 0.15


def test_what_is_had_everywhere_is_had_by_all_or_none() -> None:
    restart = Option(name="restart", cost=0.0, impairments=(0.1,))
    kept = Option(name="kept", cost=5.0, impairments=(0.0,), lossless=True)
    together = Option(name="together", cost=1.0, impairments=(0.0,), lossless=True, everywhere="together")
    problem = Problem(
        operators=tuple(Choices(operator=name, options=(restart, kept, together)) for name in ("a", "b", "c"))
    )
    assert cheapest(problem, Wishes(quality=1.0, percentile=1.0)) == (2, 2, 2)
    assert not problem.meets((2, 0, 0), Wishes(quality=0.5))
    dear = Problem(operators=(*problem.operators, Choices(operator="d", options=(restart, kept))))
    assert cheapest(dear, Wishes(quality=1.0, percentile=1.0)) == (1, 1, 1, 1)  # d cannot have it


def test_a_percentile_leaves_out_the_worst_faults() -> None:
    assert cheapest(two(), Wishes(quality=0.95, percentile=0.5)) in ((0, 1), (1, 0))
    assert cheapest(two(), Wishes(quality=0.95, percentile=0.51)) == (1, 1)


def test_wishes_that_contradict_each_other_are_named() -> None:
    wishes = Wishes(quality=0.95, lossless="out", back_within_s=10.0)
    assert cheapest(two(), wishes) is None
    assert in_the_way(two(), wishes) == ("lossless", "back_within_s")
    bytes_and_quality = Wishes(quality=0.95, percentile=1.0, bytes_per_hour=36_000.0, back_within_s=17.0)
    assert in_the_way(two(), bytes_and_quality) == ("quality", "bytes_per_hour", "back_within_s")


def test_a_dominated_option_is_left_out_and_equal_ones_stay_once() -> None:
    options = [
        Option(name="a", cost=1.0, impairments=(0.1, 0.2)),
        Option(name="worse", cost=1.5, impairments=(0.1, 0.2)),
        Option(name="same", cost=1.0, impairments=(0.1, 0.2)),
        Option(name="other", cost=1.0, impairments=(0.2, 0.1)),
        Option(name="lossless", cost=1.5, impairments=(0.1, 0.2), lossless=True),
    ]
    assert undominated(options, back=False) == [0, 3, 4]


def test_a_problem_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ModelError, match="at least one operator"):
        Problem(operators=())
    one = Choices(operator="a", options=(Option(name="x", cost=0.0, impairments=(0.0,)),), rate=0.0)
    with pytest.raises(ModelError, match="nothing ever fails"):
        Problem(operators=(one,))
    with pytest.raises(ModelError, match="no operator 'b'"):
        Problem(operators=(one,), together=(Together(name="host", operators=("a", "b"), rate=1.0),))
    with pytest.raises(ModelError, match="impairments are numbers"):
        Option(name="x", cost=0.0, impairments=())
    with pytest.raises(ModelError, match="quality lies between"):
        Wishes(quality=1.5)


def test_quality_at_a_percentile_is_what_so_many_faults_leave() -> None:
    problem = two(cheap_left=0.25)
    assert problem.quality((0, 1), 0.5) == 1.0
    assert problem.quality((0, 1), 0.51) == 0.75
    assert problem.holding((0, 1), 0.8) == pytest.approx(0.5)
    assert problem.holding((0, 1), 0.75 - EVEN) == pytest.approx(1.0)
