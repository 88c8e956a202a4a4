"""Charts: well-formed SVG whatever the data, with everything in it that was given."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.graph.boxes import Arrow, Box, draw_graph
from spillway.report.charts import POINTS_MAX, Group, Mark, Series, bar_chart, line_chart
from spillway.report.stacked import Stack, stacked_chart

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = """<script>alert("x")</script>&amp;'"]]>"""

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
numbers = st.floats(width=32)
series = st.lists(st.builds(Series, names, st.lists(st.tuples(numbers, numbers), max_size=8)), max_size=5)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def texts(svg: str, tag: str = "text") -> list[str]:
    return ["".join(element.itertext()) for element in parsed(svg).iter(f"{SVG}{tag}")]


def lines(svg: str) -> list[str]:
    return [e.get("d", "") for e in parsed(svg).iter(f"{SVG}path") if e.get("class") == "line"]


@given(given=series, log_x=st.booleans(), log_y=st.booleans(), title=names)
def test_every_line_chart_is_well_formed(given: list[Series], log_x: bool, log_y: bool, title: str) -> None:
    svg = line_chart(given, title=title, x_label="x", y_label="y", log_x=log_x, log_y=log_y)
    assert "nan" not in "".join(lines(svg)) and "inf" not in "".join(lines(svg))
    groups = [e for e in parsed(svg).iter(f"{SVG}g") if (e.get("class") or "").startswith("series")]
    assert len(groups) == len(given)


@given(heights=st.lists(st.lists(numbers, max_size=4), max_size=4))
def test_every_bar_chart_is_well_formed(heights: list[list[float]]) -> None:
    groups = [Group(f"g{i}", [(f"b{j}", v) for j, v in enumerate(row)]) for i, row in enumerate(heights)]
    svg = bar_chart(groups, title="t", y_label="y")
    finite = sum(math.isfinite(value) for row in heights for value in row)
    bars = [e for e in parsed(svg).iter(f"{SVG}rect") if e.get("class") == "fill" and e.find(f"{SVG}title") is not None]
    assert len(bars) == finite
    assert all(float(bar.get("height", "-1")) >= 0 for bar in bars)


def test_names_cannot_leave_their_place() -> None:
    charts = [
        line_chart([Series(HOSTILE, [(1, 2)]), Series("b", [])], title=HOSTILE, x_label=HOSTILE, y_label=HOSTILE),
        bar_chart([Group(HOSTILE, [(HOSTILE, 1.0), ("b", 2.0)])], title=HOSTILE, y_label=HOSTILE),
        line_chart([], title="", x_label="", y_label="", marks=[Mark(label=HOSTILE, x=1.0)]),
        draw_graph([Box(name=HOSTILE, note=HOSTILE, link=HOSTILE, choice=HOSTILE)], [], title=HOSTILE),
    ]
    for svg in charts:
        assert not list(parsed(svg).iter(f"{SVG}script"))
        assert not list(parsed(svg).iter("script"))


def test_values_stand_in_tooltips() -> None:
    svg = line_chart([Series("QS", [(16, 0.25)], [(0.2, 0.3)])], title="t", x_label="x", y_label="y")
    assert "QS: 16, 0.25 (0.2 to 0.3)" in texts(svg, "title")


def test_a_point_that_is_no_number_breaks_the_line_and_is_counted() -> None:
    svg = line_chart([Series("a", [(0, 1), (1, math.nan), (2, 3), (3, 4)])], title="t", x_label="x", y_label="y")
    assert [path.count("M") for path in lines(svg)] == [2]
    assert "1 of the points cannot be drawn on these axes" in texts(svg)


def test_zero_cannot_stand_on_a_logarithmic_axis() -> None:
    svg = line_chart([Series("a", [(1, 0), (10, 5)])], title="t", x_label="x", y_label="y", log_y=True)
    assert "1 of the points cannot be drawn on these axes" in texts(svg)


def test_a_legend_is_there_to_tell_series_apart() -> None:
    def entries(count: int) -> int:
        svg = line_chart([Series(f"s{i}", [(0, i)]) for i in range(count)], title="t", x_label="x", y_label="y")
        return sum((e.get("class") or "").startswith("entry") for e in parsed(svg).iter(f"{SVG}g"))

    assert [entries(count) for count in (1, 2, 9)] == [0, 2, 9]


def test_marks_are_drawn_and_named() -> None:
    marks = [Mark(label="Rlq 73 s", x=73.0), Mark(label="no effect", y=1.0)]
    svg = line_chart([Series("a", [(0, 1), (100, 2)])], title="t", x_label="x", y_label="y", marks=marks)
    assert {"Rlq 73 s", "no effect"} <= set(texts(svg))
    assert sum(e.get("class") == "mark" for e in parsed(svg).iter(f"{SVG}line")) == 2


def test_whole_numbers_get_whole_ticks() -> None:
    svg = line_chart([Series("a", [(6, 1), (7, 2), (8, 2)])], title="t", x_label="batch", y_label="y")
    assert "6.5" not in texts(svg)
    assert {"6", "7", "8"} <= set(texts(svg))


def test_the_same_data_gives_the_same_chart() -> None:
    def chart() -> str:
        return line_chart([Series("a", [(0, 1), (1, 2)])], title="t", x_label="x", y_label="y")

    assert chart() == chart()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Series("a", [(0, 1)], []), "got 0 intervals for 1 points"),
        (lambda: Group("a", [("b", 1)], [(0, 1), (0, 1)]), "got 2 intervals for 1 bars"),
        (lambda: Mark(label="m"), "give x or y"),
        (lambda: Mark(label="m", x=1, y=1), "give x or y"),
        (
            lambda: line_chart([Series("a", [(0, 0)])] * 25, title="t", x_label="", y_label=""),
            "25 series are more than 24",
        ),
        (
            lambda: line_chart([Series("a", [(0, 0)] * (POINTS_MAX + 1))], title="t", x_label="", y_label=""),
            "thin them out",
        ),
    ],
)
def test_what_is_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


@given(edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=25))
def test_every_graph_can_be_drawn_cycles_included(edges: list[tuple[int, int, bool]]) -> None:
    boxes = [Box(name=f"n{i}") for i in range(10)]
    arrows = [Arrow(source=f"n{a}", target=f"n{b}", back=back) for a, b, back in edges]
    svg = draw_graph(boxes, arrows, title="g")
    assert {f"n{i}" for i in range(10)} <= set(texts(svg))
    streams = [e for e in parsed(svg).iter(f"{SVG}path") if (e.get("class") or "").startswith("stream")]
    assert len(streams) == len(arrows)


def test_a_graph_is_laid_out_from_top_to_bottom_without_overlap() -> None:
    boxes = [Box(name=name) for name in ("source", "left", "right", "join")]
    ends = [("source", "left"), ("source", "right"), ("left", "join"), ("right", "join"), ("source", "join")]
    svg = draw_graph(boxes, [Arrow(source=a, target=b) for a, b in ends], title="diamond")
    places = [
        (float(e.get("x", "0")), float(e.get("y", "0")), float(e.get("width", "0")))
        for e in parsed(svg).iter(f"{SVG}rect")
    ]
    source, left, right, join = places
    assert source[1] < left[1] == right[1] < join[1]
    assert abs(left[0] - right[0]) >= left[2]


def curve(path: str) -> Iterator[tuple[float, float]]:
    """Points along a path of M, C and V."""
    x = y = 0.0
    for kind, rest in re.findall(r"([MCV])([-0-9. ]+)", path):
        numbers = [float(number) for number in rest.split()]
        match kind:
            case "M":
                x, y = numbers
            case "C":
                x1, y1, x2, y2, x3, y3 = numbers
                for i in range(1, 50):
                    t = i / 50
                    a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
                    yield a * x + b * x1 + c * x2 + d * x3, a * y + b * y1 + c * y2 + d * y3
                x, y = x3, y3
            case "V":
                yield from ((x, y + (numbers[0] - y) * i / 50) for i in range(1, 50))
                y = numbers[0]


@given(edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
@example(edges=[(0, 1), (1, 2), (1, 3), (2, 1)])  # A stream that goes back beside a box of its source's row.
def test_no_stream_passes_behind_a_box(edges: list[tuple[int, int]]) -> None:
    arrows = [Arrow(source=f"n{a}", target=f"n{b}", back=a >= b) for a, b in edges]
    svg = draw_graph([Box(name=f"n{i}") for i in range(7)], arrows, title="g")
    boxes = [[float(e.get(key, "0")) for key in ("x", "y", "width", "height")] for e in parsed(svg).iter(f"{SVG}rect")]
    for e in parsed(svg).iter(f"{SVG}path"):
        if (e.get("class") or "").startswith("stream"):
            inside = [
                (x, y)
                for x, y in curve(e.get("d", ""))
                for left, top, width, height in boxes
                if left + 0.1 < x < left + width - 0.1 and top + 0.1 < y < top + height - 0.1
            ]
            assert not inside


def test_a_graph_too_large_to_read_is_refused() -> None:
    with pytest.raises(InputError, match="301 boxes are more than 300"):
        draw_graph([Box(name=str(i)) for i in range(301)], [], title="large")


@given(
    st.lists(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), max_size=8),
    st.lists(names, min_size=3, max_size=3),
    st.integers(0, 10**6),
)
@example([[0.0, 0.0, 5e-324]], ["", "", ""], 0)
def test_stacks_stand_on_each_other(heights: list[list[float]], layers: list[str], first: int) -> None:
    stacks = [Stack(first + 2 * i, first + 2 * i + 1, of_stack) for i, of_stack in enumerate(heights)]
    svg = stacked_chart(layers, stacks, title="T", x_label="batch", y_label="ms")
    groups = [e for e in parsed(svg).iter(f"{SVG}g") if (e.get("class") or "").startswith("series")]
    drawn = [[rect for rect in group.iter(f"{SVG}rect") if rect.get("class") == "fill"] for group in groups]
    assert [len(of_layer) for of_layer in drawn] == [len(stacks)] * 3
    for lower, upper in pairwise(drawn):
        for below, above in zip(lower, upper, strict=True):
            end = float(above.get("y", "")) + float(above.get("height", ""))
            assert end == pytest.approx(float(below.get("y", "")), abs=0.2)


def test_too_many_stacks_are_refused() -> None:
    with pytest.raises(InputError, match="201 stacks are more than 200"):
        stacked_chart(["a"], [Stack(i, i, [1.0]) for i in range(201)], title="T", x_label="x", y_label="y")
