"""The page and the charts of a reproduction, whichever paper's."""

from pathlib import Path
from typing import Any

from spillway.errors import RunError


def reproduction_page(path: Path, manifest: dict[str, Any]) -> str:
    """One self-contained HTML page."""
    match manifest.get("paper"):
        case "af":
            from spillway.report.af_page import af_page

            return af_page(path, manifest)
        case "ecoc":
            from spillway.report.ecoc_page import ecoc_page

            return ecoc_page(path, manifest)
        case "validation":
            from spillway.report.validation_page import validation_page

            return validation_page(path, manifest)
        case "spade":
            from spillway.report.spade_page import spade_page

            return spade_page(path, manifest)
        case other:
            raise _unknown(path, other)


def reproduction_charts(path: Path, manifest: dict[str, Any]) -> dict[str, str]:
    """Every chart of the page as an SVG of its own, by file name."""
    match manifest.get("paper"):
        case "af":
            from spillway.report.af_page import charts as af_charts

            return af_charts(path, manifest)
        case "ecoc":
            from spillway.report.ecoc_page import charts as ecoc_charts

            return ecoc_charts(path, manifest)
        case "validation":
            from spillway.report.validation_page import charts as validation_charts

            return validation_charts(path, manifest)
        case "spade":
            from spillway.report.spade_page import charts as spade_charts

            return spade_charts(path, manifest)
        case other:
            raise _unknown(path, other)


def _unknown(path: Path, paper: object) -> RunError:
    return RunError(f"{path} holds the reproduction of {paper!r}; there are pages of af, ecoc, spade and validation.")
