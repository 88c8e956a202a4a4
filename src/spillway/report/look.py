"""How pages look and act: the style sheets and the script in ``assets/``, which every page carries inside itself."""

from importlib.resources import files

from spillway.graph.boxes import GRAPH_STYLE


def _asset(name: str) -> str:
    return files("spillway.report").joinpath("assets", name).read_text(encoding="utf-8")


# A chart or a graph carries its style, so that each can be saved and shown alone; on a page it stands once, at the top.
CHART_STYLE = _asset("colours.css") + _asset("chart.css")
PAGE_STYLE = _asset("page.css")
STYLE = CHART_STYLE + GRAPH_STYLE + PAGE_STYLE
SCRIPT = _asset("page.js")

# Of charts that stand beside each other on a wide screen, and are read on a phone: an SVG shrinks with its letters.
CHART_WIDTH = 480
CHART_HEIGHT = 300
