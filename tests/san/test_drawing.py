"""A net's picture is well-formed, complete, and has nothing on top of anything else."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from spillway.benches.tandem import Tandem
from spillway.graph.layering import lay_out
from spillway.san import Case, Deterministic, Exponential, ModelError, Net
from spillway.san.drawing import draw

SVG = "{http://www.w3.org/2000/svg}"


def shapes(picture: str, kind: str, style: str) -> int:
    root = ElementTree.fromstring(picture)
    return sum(style in each.get("class", "").split() for each in root.iter(SVG + kind))


def test_everything_is_drawn_once() -> None:
    net = Net("net")
    queue, alive, odd = net.place("queue", 2), net.place("alive", 12), net.place("<odd>&")
    net.timed("serve", Exponential(queue * 2), inputs=[(queue, 3), alive > 1], cases=[Case(0.5, [odd]), Case(0.5)])
    net.instant("clear", inputs=[odd], outputs=[alive.set(0), queue])
    picture = draw(net)
    assert shapes(picture, "circle", "place") == 3
    assert shapes(picture, "circle", "token") == 2
    assert shapes(picture, "circle", "case") == 2
    assert shapes(picture, "rect", "timed") == 1
    assert shapes(picture, "rect", "instant") == 1
    # Arcs: queue to serve, serve to odd, odd to clear, clear to queue; read: alive; assigned: alive.
    assert shapes(picture, "path", "arc") == 6
    assert shapes(picture, "path", "read") == 1
    assert shapes(picture, "path", "assigned") == 1
    texts = [each.text for each in ElementTree.fromstring(picture).iter(SVG + "text")]
    assert {"queue", "alive", "<odd>&", "serve", "clear", "3", "12"} <= set(texts)


def test_no_two_nodes_share_a_spot() -> None:
    net = Tandem(operators=5).net()
    edges = [(place, name) for name, each in net.activities.items() for place in sorted(each.enabling())]
    edges += [(name, place) for name, each in net.activities.items() for place in sorted(each.writes(0))]
    layout = lay_out([*net.places, *net.activities], edges)
    spots = [*layout.at.values(), *(bend for bends in layout.bends for bend in bends)]
    columns: dict[int, list[float]] = {}
    for column, row in spots:
        columns.setdefault(column, []).append(row)
    for rows in columns.values():
        rows.sort()
        assert all(below - above > 0.999 for above, below in pairwise(rows))
    assert draw(net).count("<g>") == len(net.places) + len(net.activities)


def test_a_picture_nobody_could_read_is_refused() -> None:
    net = Net("crowd")
    for i in range(1001):
        net.place(f"place{i}")
    net.timed("go", Deterministic(1))
    with pytest.raises(ModelError, match="Draw the nets it was joined from"):
        draw(net)
