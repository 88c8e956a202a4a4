"""Reliability levels, against the definitions written down tuple by tuple."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from tests.score import naive_reliability as naive
from tests.score.naive_reliability import Tuple

from spillway.errors import InputError
from spillway.score.reliability import Reliability
from spillway.score.reliability_between import joined_extents, walk
from spillway.score.reliability_parts import Part, joined
from spillway.score.reliability_rows import Moments, Rows, summarise
from spillway.score.reliability_tables import compare

PAYLOADS = some.tuples(some.sampled_from([0, 1, None]), some.sampled_from([0.0, -0.0, 1.5, math.nan, None]))
# Few values, so that tuples often are alike, meet in time, and lie across a cut.
TUPLES = some.builds(
    Tuple,
    stream=some.sampled_from(["a", "b", None]),
    seq=some.integers(0, 6),
    payload=PAYLOADS,
    time=some.one_of(some.integers(0, 8), some.just(None)),
)
TIMED = some.builds(
    Tuple,
    stream=some.sampled_from(["a", "b", "c"]),
    seq=some.integers(0, 9),
    payload=PAYLOADS,
    time=some.integers(0, 9),
)
OUTPUTS = some.one_of(
    some.tuples(some.lists(TUPLES, max_size=12), some.lists(TUPLES, max_size=12)),
    # The same tuples, a little later, so that some levels hold.
    some.lists(TIMED, max_size=10, unique_by=lambda each: (each.stream, each.seq)).flatmap(
        lambda ideal: some.tuples(
            some.just(ideal),
            some.lists(some.integers(0, 2), min_size=len(ideal), max_size=len(ideal)).map(
                lambda delays: [later(each, by) for each, by in zip(ideal, delays, strict=True)]
            ),
        )
    ),
)


def later(one: Tuple, by: int) -> Tuple:
    return Tuple(one.stream, one.seq, one.payload, None if one.time is None else one.time + by)


def table(rows: list[Tuple], *, order: tuple[str, ...] = ("s", "seq", "n", "x", "t")) -> pa.Table:
    columns: dict[str, Any] = {
        "s": pa.array([each.stream for each in rows], pa.string()),
        "seq": pa.array([each.seq for each in rows], pa.int64()),
        "n": pa.array([each.payload[0] for each in rows], pa.int64()),
        "x": pa.array([each.payload[1] for each in rows], pa.float64(), from_pandas=False),
        "t": pa.array([each.time for each in rows], pa.int64()),
    }
    return pa.table({name: columns[name] for name in order})


def judged(ideal: list[Tuple], real: list[Tuple]) -> Reliability:
    return compare(table(ideal), table(real, order=("x", "t", "n", "seq", "s")), time="t", stream="s")


@example(
    outputs=(
        [Tuple("b", 0, (0, 0.0), None), Tuple("a", 0, (0, 0.0), None)],  # without times, of which order asks for none
        [Tuple("a", 0, (0, 0.0), 0)],
    )
)
@given(OUTPUTS)
def test_every_level_is_the_definition(outputs: tuple[list[Tuple], list[Tuple]]) -> None:
    ideal, real = outputs
    found = judged(ideal, real)
    loss, error = naive.loss_and_error(ideal, real)
    delay = naive.delay(ideal, real)
    assert (found.loss_factor, found.error_factor) == (loss, error)
    assert found.lossless == (loss == 1 and error == 0)
    assert found.limited_loss == (loss > 0 and math.isfinite(error))
    assert found.delay_tightest_s == delay
    assert found.limited_delay == (delay is not None)
    assert found.delay_free == (delay == 0)
    assert found.ordered_in_stream == naive.in_stream(ideal, real)
    assert found.ordered_between == naive.between(ideal, real)
    shown = {witness.kind for witness in found.witnesses}
    for level in found.levels:
        if level.name == "LILO" and not (loss < 1 or error > 0):
            continue
        assert level.holds is not False or shown & set(level.shown_by), level
        assert level.holds is not True or level.name in ("LILO", "LIDE") or not shown & set(level.shown_by), level


@given(
    some.lists(TIMED, max_size=10, unique_by=lambda each: (each.stream, each.seq)),
    some.lists(TIMED, max_size=10, unique_by=lambda each: (each.stream, each.seq, repr(each.payload))),
)
def test_of_sets_correct_and_wrong_are_the_papers_to_the_letter(ideal: list[Tuple], real: list[Tuple]) -> None:
    real = list({(each.stream, each.seq, canonical(each.payload)): each for each in real}.values())
    found = judged(ideal, real)
    assert (found.correct_tuples, found.wrong_tuples) == naive.by_the_letter(ideal, real)


def canonical(payload: tuple[Any, ...]) -> str:
    return repr(tuple(value + 0.0 if isinstance(value, float) else value for value in payload))


@given(OUTPUTS, some.sets(some.integers(0, 6)), some.sets(some.integers(0, 10)))
def test_what_is_cut_adds_up(outputs: tuple[list[Tuple], list[Tuple]], cuts: set[int], time_cuts: set[int]) -> None:
    """Judged in parts by stream and number, and moments in parts by time, as on Spark."""
    names: list[str | None] = [None, "a", "b", "c"]
    rows = [(each, real) for real, side in enumerate(outputs) for each in side]

    def ranged(one: Tuple) -> tuple[int, int]:
        return names.index(one.stream), sum(cut <= (one.seq or 0) for cut in cuts)

    def part_of(among: list[tuple[Tuple, int]]) -> tuple[Part, Moments | None]:
        here = sorted({each.stream for each, _ in among}, key=names.index)
        return summarise(
            Rows(
                names=here,
                stream=array([here.index(each.stream) for each, _ in among]),
                seq=array([each.seq for each, _ in among]),
                numbered=array([True for _ in among], pa.bool_()),
                payload=[array([hash(canonical(each.payload)) for each, _ in among])],
                real=array([bool(real) for _, real in among], pa.bool_()),
                time=array([each.time or 0 for each, _ in among]),
                timed=array([each.time is not None for each, _ in among], pa.bool_()),
            ),
            witnesses=5,
            between=True,
        )

    ranges = sorted({ranged(each) for each, _ in rows})
    parts = [part_of([row for row in rows if ranged(row[0]) == one]) for one in ranges]
    cut = joined((Part.from_json(part.to_json()) for part, _ in parts), witnesses=5)
    whole = joined([part_of(rows)[0]] if rows else [], witnesses=5)
    assert cut == whole
    moments = [
        (m.names[m.stream[row]], *(x[row] for x in (m.at, m.least, m.least_seq, m.most, m.most_seq)))
        for _, m in parts
        if m is not None
        for row in range(len(m.at))
    ]
    extents = []
    for number in range(len(time_cuts) + 1):
        here = [each for each in moments if sum(cut <= each[1] for cut in time_cuts) == number]
        if here:
            stream, *others = zip(*here, strict=True)
            at, least, least_seq, most, most_seq = map(array, others)
            codes = array([names.index(each) for each in stream])
            extents.append(
                walk(
                    Moments(
                        names=names,
                        stream=codes,
                        at=at,
                        least=least,
                        least_seq=least_seq,
                        most=most,
                        most_seq=most_seq,
                    ),
                    witnesses=5,
                )
            )
    found = judged(*outputs)
    assert bool(joined_extents(extents, witnesses=5).found) == (found.between is False)


def array(values: Any, kind: pa.DataType = pa.int64()) -> Any:  # noqa: B008
    return pa.array(list(values), kind).to_numpy(zero_copy_only=False)


@pytest.mark.parametrize(
    ("real", "kinds", "said"),
    [
        ({"seq": [1, 2], "w": ["a", "b"], "t": [0.0, 1.0]}, {"missing"}, "Tuple 3 did not come: w 'c'."),
        (
            {"seq": [1, 2, 3], "w": ["a", "b", None], "t": [0.0, 1.0, 2.0]},
            {"altered"},
            "Tuple 3 came with another payload: w is nothing, ideally 'c'.",
        ),
        (
            {"seq": [1, 2, 3, 3], "w": ["a", "b", "c", "c"], "t": [0.0, 1.0, 2.0, 9.0]},
            {"repeated"},
            "Tuple 3 came once too often: w 'c'.",
        ),
        (
            {"seq": [1, 2, 3, 7], "w": ["a", "b", "c", "z"], "t": [0.0, 1.0, 2.0, 9.0]},
            {"extra"},
            "Tuple 7 should not be there: w 'z'.",
        ),
        (
            {"seq": [1, 2, 3, None], "w": ["a", "b", "c", "z"], "t": [0.0, 1.0, 2.0, 9.0]},
            {"unnumbered"},
            "A tuple without a number should not be there.",
        ),
        ({"seq": [1, 2, 3], "w": ["a", "b", "c"], "t": [0.0, 1.0, 4.5]}, {"late"}, "Tuple 3 came 2.5 s late, at 4.5."),
        (
            {"seq": [1, 2, 3], "w": ["a", "b", "c"], "t": [0.0, 1.0, 1.5]},
            {"early"},
            "Tuple 3 came 0.5 s before its time, at 1.5.",
        ),
        (
            {"seq": [1, 2, 3], "w": ["a", "b", "c"], "t": [0.0, 1.0, math.nan]},
            {"untimed"},
            "Tuple 3 lacks a time.",
        ),
        (
            {"seq": [1, 2, 3], "w": ["a", "b", "c"], "t": [0.0, 3.0, 2.0]},
            {"late", "disordered"},
            "Tuple 2 came at 3, after tuple 3, which came at 2.",
        ),
    ],
)
def test_what_is_wrong_is_shown(real: dict[str, list[Any]], kinds: set[str], said: str) -> None:
    ideal = pa.table({"seq": [1, 2, 3], "w": ["a", "b", "c"], "t": [0.0, 1.0, 2.0]})
    found = compare(ideal, pa.table(real), time="t")
    assert {witness.kind for witness in found.witnesses} == kinds
    assert said in [witness.said for witness in found.witnesses]


def test_one_that_came_twice_does_not_make_good_for_one_that_was_lost() -> None:
    ideal = pa.table({"seq": [1, 2]})
    found = compare(ideal, pa.table({"seq": [1, 1]}))
    assert (found.loss_factor, found.error_factor, found.lossless) == (0.5, 0.5, False)


def test_levels_of_time_are_unknown_without_times() -> None:
    ideal = pa.table({"seq": [1, 2]})
    assert [level.holds for level in compare(ideal, ideal).levels] == [True, True, None, None, None, None]


def test_empty_outputs_are_alike_and_an_empty_one_lost_everything() -> None:
    some_rows = pa.table({"seq": [1, 2], "t": [0.0, 1.0]})
    none = some_rows.slice(0, 0)
    assert all(level.holds for level in compare(none, none, time="t").levels)
    lost = compare(some_rows, none, time="t")
    assert (lost.loss_factor, lost.limited_loss, lost.limited_delay) == (0.0, False, True)
    unwanted = compare(none, some_rows, time="t")
    assert (unwanted.error_factor, unwanted.limited_loss) == (math.inf, False)


def test_timestamps_of_different_units_and_zones_are_one_time() -> None:
    ideal = pa.table({"seq": [1], "t": pa.array([1_000], pa.timestamp("ms"))})
    real = pa.table({"seq": [1], "t": pa.array([3_500_000], pa.timestamp("us", tz="Europe/Zurich"))})
    found = compare(ideal, real, time="t")
    assert found.delay_tightest_s == 2.5
    assert found.witnesses[0].said == "Tuple 1 came 2.5 s late, at 1970-01-01 00:00:03.500000."


def test_numbers_are_compared_across_types_and_nested_values_as_they_read() -> None:
    ideal = pa.table({"seq": pa.array([1, 2], pa.int32()), "v": [1, 2], "many": [[1, None], [2]]})
    real = pa.table({"seq": [1, 2], "v": [1.0, 2.5], "many": [[1, None], [2]]})
    found = compare(ideal, real)
    assert (found.correct_tuples, found.altered_tuples) == (1, 1)


@pytest.mark.parametrize(
    ("real", "options", "said"),
    [
        ({"seq": [1]}, {}, "the real table lacks column 'w'"),
        ({"seq": [1], "w": ["a"], "z": [1]}, {}, "the ideal table lacks column 'z'"),
        ({"n": [1], "w": ["a"]}, {}, "The real table has no column 'seq', which was named as seq; it has n, w."),
        ({"seq": [1], "w": ["a"]}, {"time": "t"}, "The ideal table has no column 't', which was named as time"),
        ({"seq": [1], "w": ["a"]}, {"payload": ["q"]}, "lacks column 'q', which should be compared"),
        ({"seq": [1], "w": [5]}, {}, "Column 'w' cannot be compared: it is string in the ideal and int64 in the real"),
        ({"seq": ["1"], "w": ["a"]}, {}, "should number tuples by integers; it is string"),
        ({"seq": [1], "w": ["a"]}, {"time": "w"}, "should be a timestamp in both tables, or a number of seconds"),
    ],
)
def test_what_cannot_be_compared_is_refused(real: dict[str, Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=None) as refused:
        compare(pa.table({"seq": [1], "w": ["a"]}), pa.table(real), **options)
    assert said in str(refused.value)


def test_an_ideal_tuple_without_a_number_is_refused() -> None:
    with pytest.raises(InputError, match="1 of 2 rows of the ideal table have no 'seq'"):
        compare(pa.table({"seq": [1, None]}), pa.table({"seq": [1]}))
