"""A net as a picture: one SVG, nothing outside it.

Places are circles with their tokens, timed activities thick bars with their law below, instantaneous ones thin bars.
Solid lines are arcs. A dashed line into an activity is a place that a predicate of it reads; a dashed arrow out of it
is a place that a gate assigns. Cases are small circles on the activity, their probabilities beside them.
"""

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from spillway.errors import ModelError
from spillway.graph.layering import Layout, lay_out
from spillway.san.net import Net
from spillway.san.parts import Activity, Arc

NODES_MAX = 1000
_COLUMN, _ROW, _MARGIN = 150, 74, 70
_RADIUS = 17
_LABEL_LENGTH_MAX = 26
_STYLE = """
text{font:12px system-ui,sans-serif;fill:#1b1b1f;text-anchor:middle}
.law,.chance{font-size:10px;fill:#5b5b66}
.place{fill:#fff;stroke:#1f4e8c;stroke-width:1.6}.token{fill:#1f4e8c}
.timed{fill:#e8a33d;stroke:#8a5a0b;stroke-width:1.2}.instant{fill:#1b1b1f}.case{fill:#fff;stroke:#8a5a0b;stroke-width:1.2}
.arc{fill:none;stroke:#555b66;stroke-width:1.3}.read,.assigned{stroke-dasharray:4 3;stroke:#8b93a1}
.multiple{font-size:10px;fill:#1f4e8c}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of the picture."""

    source: str
    target: str
    style: str  # arc, read or assigned
    case: int = 0
    label: str = ""


def draw(net: Net) -> str:
    """The net as SVG text."""
    if len(net.places) + len(net.activities) > NODES_MAX:
        raise ModelError(
            f"Net {net.name!r} has {len(net.places)} places and {len(net.activities)} activities; at most {NODES_MAX} "
            f"together make a picture that can be read. Draw the nets it was joined from."
        )
    lines = [line for activity in net.activities.values() for line in _lines(activity)]
    # What needs no token begins the picture, and whatever leads back to it is turned round.
    first = [_bar(name) for name, activity in net.activities.items() if not activity.arcs]
    nodes = list(dict.fromkeys([*first, *map(_place, net.places), *map(_bar, net.activities)]))
    layout = lay_out(nodes, [(line.source, line.target) for line in lines])
    width = 2 * _MARGIN + (layout.layers - 1) * _COLUMN
    height = 2 * _MARGIN + (layout.length - 1) * _ROW
    drawn = [_drawn_line(net, layout, i, line) for i, line in enumerate(lines)]
    drawn += [_drawn_place(net, layout, name) for name in net.places]
    drawn += [_drawn_activity(layout, activity) for activity in net.activities.values()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img"><title>{escape(str(net))}</title><style>{_STYLE}</style>'
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#555b66"/></marker></defs>' + "".join(drawn) + "</svg>\n"
    )


def _lines(activity: Activity) -> list[_Line]:
    bar = _bar(activity.name)
    lines = [
        _Line(source=_place(arc.place), target=bar, style="arc", label=_times(arc.tokens)) for arc in activity.arcs
    ]
    taken = {arc.place for arc in activity.arcs}
    read = sorted(activity.enabling() - taken)
    lines += [_Line(source=_place(place), target=bar, style="read") for place in read]
    assigned = {each.place for gate in activity.gates for each in gate.does}
    lines += [_Line(source=bar, target=_place(place), style="assigned") for place in sorted(assigned)]
    for case, outcome in enumerate(activity.outcomes):
        for output in outcome.outputs:
            if isinstance(output, Arc):
                label = _times(output.tokens)
                lines.append(_Line(source=bar, target=_place(output.place), style="arc", case=case, label=label))
            else:
                for place in sorted({each.place for each in output.does}):
                    lines.append(_Line(source=bar, target=_place(place), style="assigned", case=case))
    return lines


def _drawn_line(net: Net, layout: Layout, number: int, line: _Line) -> str:
    start, end = _point(layout.at[line.source]), _point(layout.at[line.target])
    bends = [_point(bend) for bend in layout.bends[number]]
    onward, back = (bends[0] if bends else end), (bends[-1] if bends else start)
    if line.source.startswith("p:"):
        start, end = _beside(start, onward, _RADIUS), _beside(end, back, 5)
    else:
        cases = len(net.activities[line.source[2:]].outcomes)
        from_case = (start[0], start[1] + _case_offset(line.case, cases))
        start, end = _beside(from_case, onward, 11 if cases > 1 else 5), _beside(end, back, _RADIUS)
    points = [start, *bends, end]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        # Leave and arrive level, so that a line through several columns is smooth.
        reach = (x1 - x0) * 0.45
        path += f"C{x0 + reach:.1f} {y0:.1f} {x1 - reach:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    tip = "" if line.style == "read" else ' marker-end="url(#tip)"'
    text = ""
    if line.label:
        middle = points[len(points) // 2 - 1], points[len(points) // 2]
        x, y = (middle[0][0] + middle[1][0]) / 2, (middle[0][1] + middle[1][1]) / 2
        text = f'<text class="multiple" x="{x:.1f}" y="{y - 4:.1f}">{line.label}</text>'
    return f'<path class="arc {line.style}" d="{path}"{tip}/>{text}'


def _drawn_place(net: Net, layout: Layout, name: str) -> str:
    x, y = _point(layout.at[_place(name)])
    tokens = net.places[name].tokens
    inside = f'<text x="{x}" y="{y + 4}">{tokens}</text>' if tokens > 3 else ""
    if 0 < tokens <= 3:
        inside = "".join(
            f'<circle class="token" cx="{x + 9 * (i - (tokens - 1) / 2):.1f}" cy="{y}" r="3.6"/>' for i in range(tokens)
        )
    label = f'<text x="{x}" y="{y + _RADIUS + 13}">{_short(name)}</text>'
    return f'<g><title>{escape(name)}</title><circle class="place" cx="{x}" cy="{y}" r="{_RADIUS}"/>{inside}{label}</g>'


def _drawn_activity(layout: Layout, activity: Activity) -> str:
    x, y = _point(layout.at[_bar(activity.name)])
    half = 20
    width, style = (9, "timed") if activity.timed else (3, "instant")
    shape = f'<rect class="{style}" x="{x - width / 2}" y="{y - half}" width="{width}" height="{2 * half}"/>'
    law = ""
    if activity.distribution is not None:
        numbers = ", ".join(str(parameter).strip("()") for parameter in activity.distribution.parameters())
        law = f"{type(activity.distribution).__name__}({numbers})"
    cases = ""
    count = len(activity.outcomes)
    for case, outcome in enumerate(activity.outcomes if count > 1 else ()):
        level = y + _case_offset(case, count)
        cases += f'<circle class="case" cx="{x + 8}" cy="{level:.1f}" r="3.4"/>'
        cases += (
            f'<text class="chance" x="{x + 15}" y="{level - 5:.1f}" style="text-anchor:start">'
            f"{_short(str(outcome.chance), 14)}</text>"
        )
    predicates = " & ".join(str(gate.predicate) for gate in activity.gates)
    title = escape(" ".join(filter(None, [activity.name, law, f"when {predicates}" if predicates else ""])))
    label = f'<text x="{x}" y="{y + half + 13}">{_short(activity.name)}</text>'
    below = f'<text class="law" x="{x}" y="{y + half + 25}">{_short(law)}</text>' if law else ""
    return f"<g><title>{title}</title>{shape}{cases}{label}{below}</g>"


def _point(at: tuple[int, float]) -> tuple[float, float]:
    return _MARGIN + at[0] * _COLUMN, round(_MARGIN + (at[1] - 0.5) * _ROW, 1)


def _beside(centre: tuple[float, float], towards: tuple[float, float], gap: float) -> tuple[float, float]:
    """Where a line that leaves level in a direction leaves a node."""
    return (centre[0] + (gap if towards[0] > centre[0] else -gap), centre[1])


def _case_offset(case: int, cases: int) -> float:
    return 0.0 if cases <= 1 else (case / (cases - 1) - 0.5) * 26


def _times(tokens: int) -> str:
    return str(tokens) if tokens > 1 else ""


def _short(text: str, most: int = _LABEL_LENGTH_MAX) -> str:
    return escape(text if len(text) <= most else "…" + text[-most + 1 :])


def _place(name: str) -> str:
    return f"p:{name}"


def _bar(name: str) -> str:
    return f"a:{name}"
