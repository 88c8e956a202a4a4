"""Programs and bounds say what the expressions they were made from say."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spillway.san import Exponential, Net, where
from spillway.san.bounds import enabling, paired
from spillway.san.derived import Derived
from spillway.san.expressions import BINARY, UNARY, Binary, Constant, Expression, Tokens, Unary
from spillway.san.programs import DEPTH_MAX, Programs, evaluate

PLACES = ("a", "b", "c")
MARKINGS = st.fixed_dictionaries({name: st.integers(0, 4) for name in PLACES})
NUMBERS = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
LEAVES = st.one_of(
    st.builds(lambda number: Constant(number=number), NUMBERS),
    st.builds(lambda name: Tokens(name=name), st.sampled_from(PLACES)),
)


def grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(lambda sign, of: Unary(sign=sign, of=of), st.sampled_from(sorted(UNARY)), parts),
        st.builds(
            lambda sign, left, right: Binary(sign=sign, left=left, right=right),
            st.sampled_from(sorted(BINARY)),
            parts,
            parts,
        ),
        st.builds(where, parts, parts, parts),
    )


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=12)
COMPARISONS = st.builds(
    lambda sign, left, right: Binary(sign=sign, left=left, right=right),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    LEAVES,
    LEAVES,
)
PREDICATES = st.recursive(
    COMPARISONS | LEAVES,
    lambda parts: st.one_of(
        st.builds(lambda left, right: left & right, parts, parts),
        st.builds(lambda left, right: left | right, parts, parts),
        st.builds(lambda of: ~of, parts),
    ),
    max_leaves=6,
)


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


@given(EXPRESSIONS, MARKINGS)
def test_a_program_computes_its_expression(expression: Expression, marking: dict[str, int]) -> None:
    programs = Programs(places={name: i for i, name in enumerate(PLACES)})
    programs.add(Constant(number=7.0))
    program = programs.add(expression)
    code, numbers = np.array(programs.code, np.int64), np.array(programs.numbers)
    found = evaluate(code, numbers, program, np.array([marking[name] for name in PLACES]), np.zeros(DEPTH_MAX))
    assert same(found, expression.value(marking))


@given(PREDICATES, MARKINGS)
def test_bounds_and_the_rest_say_what_the_predicate_says(predicate: Expression, marking: dict[str, int]) -> None:
    net = Net("net")
    places = [net.place(name) for name in PLACES]
    activity = net.timed(
        "go", Exponential(1), inputs=[(places[0], 2), Binary(sign="&", left=predicate, right=predicate)]
    )
    bounds, rest = enabling(activity)
    within = all(low <= marking[place] <= high for place, (low, high) in bounds.items())
    found = within and all(part.value(marking) != 0 for part in rest)
    assert found == (marking["a"] >= 2 and predicate.value(marking) != 0)


def test_plain_comparisons_need_no_program() -> None:
    net = Net("net")
    a, b, c = (net.place(name) for name in PLACES)
    activity = net.timed("go", Exponential(1), inputs=[a, (a < 5) & (b >= 1.5) & (c <= 2) & ~(b == 9), ~(c > 1) & b])
    bounds, rest = enabling(activity)
    assert bounds["a"] == (1, 4)
    assert bounds["b"][0] == 2
    assert bounds["c"] == (0, 1)
    assert [str(part) for part in rest] == ["~((b == 9))"]


@given(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0, 2, 2.5, 7]), st.booleans())
def test_what_two_places_hold_together_needs_no_program(a: int, b: int, most: float, strictly: bool) -> None:
    net = Net("net")
    one, other, _ = (net.place(name) for name in PLACES)
    predicate = (one + other < most) if strictly else (one + other <= most)
    pair = paired(predicate)
    assert pair is not None
    assert pair[:2] == ("a", "b")
    assert (a + b <= pair[2]) == bool(predicate.value({"a": a, "b": b}))
    assert paired(one + 1 < other) is None


@given(EXPRESSIONS, MARKINGS, st.frozensets(st.sampled_from(PLACES)))
def test_derived_places_say_what_the_expression_says(
    expression: Expression, marking: dict[str, int], rare: frozenset[str]
) -> None:
    derived = Derived(rare=rare, places={name: i for i, name in enumerate(PLACES)})
    within = derived.within(expression)
    held = {name: each.of.value(marking) for name, each in derived.found.items()}
    assert same(within.value({**marking, **held}), expression.value(marking))
    for name, each in derived.found.items():
        assert set(each.of.places()) <= rare
        assert held[name] == int(held[name])
        assert held[name] >= 0 or not derived.never_negative(name)


def test_expressions_print_as_they_are_written() -> None:
    net = Net("net")
    a, b, _ = (net.place(name) for name in PLACES)
    assert str(where((a + 1 > b) | ~(b == 2), 1 / a, -b)) == "where((((a + 1) > b) | ~((b == 2))), (1 / a), -(b))"
