"""A report page: one HTML file that needs nothing else.

Everything given as text is escaped; only ``body_html`` and what ``spillway.report.charts`` and ``table`` return is
put in as it is. The page forbids itself every request by a content security policy, so opening one tells nobody.

>>> text = page("A & B", [Section("Figures", text="x < y", table=table(["name", "count"], [["a", 3]]))])
>>> "A &amp; B" in text, "x &lt; y" in text, "default-src 'none'" in text
(True, True, True)
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from spillway.errors import InputError
from spillway.graph.boxes import GRAPH_STYLE
from spillway.report.look import CHART_STYLE, SCRIPT, STYLE

ROWS_MAX = 5_000
_COLUMNS_OF_A_PHONE = 5

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_TONES = ("", "good", "warn", "bad", "quiet")


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell whose text is not all: what it sorts by, its tone (good, warn, bad, quiet), a note on hovering."""

    text: str
    sort: float | str | None = None
    tone: str = ""
    note: str = ""
    words: bool = False  # whether it stands left like words, though it sorts by a number

    def __post_init__(self) -> None:
        assert self.tone in _TONES, self.tone


Value = str | int | float | bool | Cell | None


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page, in this order: heading, text (blank lines part paragraphs), HTML, chart, table."""

    heading: str
    text: str = ""
    body_html: str = ""
    chart: str = ""  # what line_chart or bar_chart returned; several may be joined
    table: str = ""  # what table() returned
    anchor: str = ""  # its name, for links inside the page


def page(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: str = "",
    lead_html: str = "",
    footer: str = "",
    script: str = "",
    data: Mapping[str, object] | None = None,
    wide: bool = False,
) -> str:
    """The page as text, the same for the same arguments.

    ``lead_html`` comes before all sections; ``script`` runs after the page's own; ``data`` is for it, as JSON in
    elements of these ids; ``wide`` uses all of a wide screen.
    """
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        f'<body class="page{" wide" if wide else ""}">',
        content(title, sections, subtitle=subtitle, lead_html=lead_html, footer=footer),
        *(
            f'<script type="application/json" id="{escape(name)}">{_json(value)}</script>'
            for name, value in (data or {}).items()
        ),
        f"<script>{SCRIPT}{script}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def content(
    title: str, sections: Sequence[Section], *, subtitle: str = "", lead_html: str = "", footer: str = ""
) -> str:
    """What there is to read on a page, without what makes it one: for a page that is there already."""
    lines = [
        "<header>",
        f"<h1>{escape(title)}</h1>",
        *([f'<p class="subtitle">{escape(subtitle)}</p>'] if subtitle else []),
        "</header>",
        "<main>",
        *([lead_html] if lead_html else []),
        sections_html(sections),
        "</main>",
        *([f"<footer>{escape(footer)}</footer>"] if footer else []),
    ]
    return "\n".join(lines)


def sections_html(sections: Sequence[Section]) -> str:
    """The parts of a page one after the other."""
    return "\n".join(part for section in sections for part in _section(section))


def side_by_side(parts: Sequence[str]) -> str:
    """HTML of charts and tables that stand beside each other where there is room."""
    return f'<div class="pair">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[Value]], *, caption: str = "") -> str:
    """A table that sorts on a click on its headings. Numbers stand right and sort by their full value.

    >>> '<td class="figure" data-sort="1234.5">1,234.5</td>' in table(["rate"], [[1234.5]])
    True
    """
    if len(rows) > ROWS_MAX:
        raise InputError(f"A table of {len(rows):,} rows is more than a page can show ({ROWS_MAX:,}); sum them up.")
    for row in rows:
        if len(row) != len(columns):
            raise InputError(f"A row of {len(row)} cells does not fit the {len(columns)} columns {', '.join(columns)}.")
    figures = [
        bool(rows) and all(_is_figure(row[i]) for row in rows) and any(row[i] is not None for row in rows)
        for i in range(len(columns))
    ]
    head = "".join(
        f'<th class="{"figure" if figure else "words"}" scope="col"><button>{escape(column)}</button></th>'
        for column, figure in zip(columns, figures, strict=True)
    )
    # Where there is more in a row than fits side by side, a phone shows it as a card, each cell with its column's name.
    wordy = len(columns) > _COLUMNS_OF_A_PHONE or (
        len(columns) > 2 and any(_is_long(value) for row in rows for value in row)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            _cell(value, figure, name=column if wordy else "")
            for value, figure, column in zip(row, figures, columns, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    kind = ' class="wordy"' if wordy else ""
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table{kind}>{told}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _section(section: Section) -> list[str]:
    paragraphs = [part.strip() for part in section.text.split("\n\n") if part.strip()]
    return [
        f'<section id="{escape(section.anchor)}">' if section.anchor else "<section>",
        f"<h2>{escape(section.heading)}</h2>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs),
        *(_without_styles(part) for part in (section.body_html, section.chart, section.table) if part),
        "</section>",
    ]


def _without_styles(part: str) -> str:
    for style in (CHART_STYLE, GRAPH_STYLE):
        part = part.replace(f"<style>{style}</style>\n", "")
    return part


def _is_figure(value: Value) -> bool:
    if isinstance(value, Cell):
        return value.sort == "" or (isinstance(value.sort, int | float) and not value.words)
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_long(value: Value) -> bool:
    return len(value.text if isinstance(value, Cell) else _text(value)) > 30


def _cell(value: Value, figure: bool, *, name: str) -> str:
    cell = value if isinstance(value, Cell) else Cell(_text(value), sort=_sort(value))
    long = "long" if _is_long(value) else ""
    classes = " ".join(each for each in ("figure" if figure else long, cell.tone) if each)
    attributes = f' class="{classes}"' if classes else ""
    if name:
        attributes += f' data-name="{escape(name)}"'
    if cell.sort is not None:
        attributes += f' data-sort="{escape(str(cell.sort))}"'
    if cell.note:
        attributes += f' title="{escape(cell.note)}"'
    return f"<td{attributes}>{escape(cell.text)}</td>"


def _text(value: str | int | float | bool | None) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case float() if not math.isfinite(value):
            return "–"
        case float():
            # Four figures below a thousand; whole ones are never cut off.
            return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}".removesuffix(".0")
        case int():
            return f"{value:,}"
    return str(value)


def _sort(value: str | int | float | bool | None) -> float | str | None:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""  # sorts last, either way
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _json(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
