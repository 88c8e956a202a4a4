"""How charts look: colours for light and dark, markers, dashes.

The colours start from Okabe and Ito's set, which people with any kind of colour blindness tell apart; each is made
darker for light paper, or lighter for dark, until it stands out there at least three to one.
"""

from html import escape

LIGHT = ("#0072b2", "#d55e00", "#00875f", "#b0508a", "#a87000", "#2b8cc4", "#3a3f46", "#7a7400")
DARK = ("#4da3e0", "#f07b3f", "#2ec79a", "#e39ac5", "#f0b429", "#8cd0f5", "#dfe3e8", "#d8d04a")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def _variables(colours: tuple[str, ...], *, ink: str, soft: str, grid: str, paper: str) -> str:
    named = "".join(f"--c{i}:{colour};" for i, colour in enumerate(colours))
    return f"--ink:{ink};--soft:{soft};--grid:{grid};--paper:{paper};{named}"


ON_LIGHT = _variables(LIGHT, ink="#1b1f24", soft="#59626d", grid="#dfe3e8", paper="#ffffff")
ON_DARK = _variables(DARK, ink="#e9edf1", soft="#a3adb8", grid="#343b43", paper="#171b20")

# Repeated in each chart, so that each can be saved and shown alone.
STYLE = (
    f".chart{{{ON_LIGHT}font:13px system-ui,sans-serif;width:100%;height:auto;display:block}}"
    f"@media(prefers-color-scheme:dark){{.chart{{{ON_DARK}}}}}"
    f"@media print{{.chart{{{ON_LIGHT}}}}}"
    ".chart text{fill:var(--soft)}.chart .title{fill:var(--ink);font-weight:600;font-size:15px}"
    "@media(max-width:40rem){.chart{font-size:16px}.chart .title{font-size:17px}}"
    ".chart .name{fill:var(--ink)}.chart .note{font-style:italic}.chart .marked{fill:var(--ink)}"
    ".chart .note,.chart .marked{stroke:var(--paper);stroke-width:4px;paint-order:stroke}"
    ".chart .paper{fill:var(--paper)}.chart .grid{stroke:var(--grid)}.chart .axis{stroke:var(--soft)}"
    ".chart .mark{stroke:var(--ink);stroke-dasharray:4 3}"
    ".chart .line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}"
    ".chart .bar{fill:none;stroke:var(--c);stroke-width:1.3}.chart .over{stroke:var(--ink)}"
    ".chart .dot{fill:var(--c);stroke:var(--paper)}.chart .fill{fill:var(--c)}"
    ".chart .target{fill:transparent}.chart .entry text{fill:var(--ink)}.chart .entry{cursor:pointer}"
    ".chart .entry.off{opacity:.35}.chart .series.off{display:none}"
    + "".join(f".chart .s{i}{{--c:var(--c{i})}}" for i in range(len(LIGHT)))
)


def marker(index: int, x: float, y: float, *, title: str = "") -> str:
    """A small shape around a point: circle, square, triangle or diamond by the index of its series."""
    told = f"<title>{escape(title)}</title>" if title else ""
    shape = index % 4
    if shape == 0:
        return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4">{told}</circle>'
    paths = {1: "M-3.6-3.6h7.2v7.2h-7.2z", 2: "M0-4.6L4.4 3.4H-4.4z", 3: "M0-5L5 0L0 5L-5 0z"}
    return f'<path class="dot" transform="translate({x:.1f} {y:.1f})" d="{paths[shape]}">{told}</path>'
