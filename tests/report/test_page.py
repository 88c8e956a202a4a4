"""Pages: one file, nothing from elsewhere, nothing that text can break out of."""

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.report.charts import Series, line_chart
from spillway.report.page import ROWS_MAX, Cell, Section, page, table
from spillway.report.panels import Control, panels

HOSTILE = """</script><script>alert("x")</script>&amp;'"<!--"""


class Elements(HTMLParser):
    """Counts elements and keeps the text of each kind."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> closes {self._open[-1:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self.text[self._open[-1]] = self.text.get(self._open[-1], "") + data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.found)


def everything(text: str) -> str:
    chart = line_chart([Series(text, [(0, 1)]), Series("b", [(0, 2)])], title=text, x_label=text, y_label=text)
    figures = table([text, "n"], [[text, 1], [Cell(text, sort=text, note=text, tone="bad"), 2]], caption=text)
    choice = panels([Control(name="rate", label=text, options=(text, "b"))], {(0,): chart, (1,): ""})
    section = Section(text, text=text, body_html=choice, chart=chart, table=figures, anchor="here")
    return page(text, [section], subtitle=text, footer=text, data={"numbers": {"text": text}})


def test_text_stays_text() -> None:
    elements = Elements(everything(HOSTILE))
    assert elements.count("script") == 2  # the data and the page's own
    assert elements.text["h1"] == HOSTILE
    assert elements.text["h2"] == HOSTILE
    assert HOSTILE in elements.text["td"]
    data = next(part for part in re.findall(r'application/json" id="numbers">(.*?)</script>', everything(HOSTILE)))
    assert json.loads(data) == {"text": HOSTILE}


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
def test_every_page_is_well_formed(text: str) -> None:
    elements = Elements(everything(text))
    assert elements.count("script") == 2
    assert elements.count("table") == 1


def test_a_page_asks_for_nothing() -> None:
    html = everything("plain")
    assert "default-src 'none'" in html
    outside = [
        (tag, name, value)
        for tag, attributes in Elements(html).found
        for name, value in attributes.items()
        if name in ("src", "href", "action", "data", "srcset") and not (value or "").startswith("#")
    ]
    assert not outside
    assert "url(" not in html and "@import" not in html
    assert set(re.findall(r"https?://[^\s\"']*", html)) == {"http://www.w3.org/2000/svg"}


def test_what_drawings_carry_stands_once() -> None:
    assert Elements(everything("plain")).count("style") == 1


def test_figures_stand_right_and_sort_by_their_value() -> None:
    html = table(["name", "rate", "seen"], [["a", 1234.5678, None], ["b", float("nan"), 3]])
    assert '<td class="figure" data-sort="1234.5678">1,234.6</td>' in html
    assert '<td class="figure" data-sort="">–</td>' in html
    assert "<td>a</td>" in html


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (1e6, "1,000,000"),
        (12, "12"),
        (1234567, "1,234,567"),
        (True, "yes"),
        (None, "–"),
        (2.0, "2"),
    ],
)
def test_values_as_text(value: float | bool | None, text: str) -> None:
    assert f">{text}</td>" in table(["v"], [[value]])


def test_paragraphs() -> None:
    html = page("t", [Section("h", text="one\n\ntwo")])
    assert "<p>one</p>\n<p>two</p>" in html


def test_one_panel_is_shown() -> None:
    html = panels([Control(name="rate", label="Rate", options=("a", "b"), chosen=1)], {(0,): "A", (1,): "B"})
    assert '<div class="panel" data-choice="0" hidden>A</div>' in html
    assert '<div class="panel" data-choice="1">B</div>' in html


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="does not fit the 2 columns a, b"):
        table(["a", "b"], [["x"]])
    with pytest.raises(InputError, match="sum them up"):
        table(["a"], [["x"]] * (ROWS_MAX + 1))
    with pytest.raises(InputError, match="1,001 panels"):
        panels([], {(i,): "" for i in range(1001)})
