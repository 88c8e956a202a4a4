"""What tells the series of a chart apart: colour, dash and marker, so that a copy in grey still does."""

from html import escape

_COLOURS = 8  # s0 to s7 in assets/chart.css
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_SHAPES = {1: "M-3.6-3.6h7.2v7.2h-7.2z", 2: "M0-4.6L4.4 3.4H-4.4z", 3: "M0-5L5 0L0 5L-5 0z"}


def colour(index: int) -> str:
    """The class that gives the series of this index its colour."""
    return f"s{index % _COLOURS}"


def dash(index: int) -> str:
    """The attribute that gives the line of a series its dashes, if it has any."""
    dash = _DASHES[(index // 4) % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def marker(index: int, x: float, y: float, *, title: str = "") -> str:
    """A small shape around a point: circle, square, triangle or diamond by the index of its series."""
    told = f"<title>{escape(title)}</title>" if title else ""
    shape = index % 4
    if shape == 0:
        return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4">{told}</circle>'
    return f'<path class="dot" transform="translate({x:.1f} {y:.1f})" d="{_SHAPES[shape]}">{told}</path>'
