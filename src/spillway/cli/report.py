"""``spillway report RUN``: one HTML page from a run directory."""

import argparse
from pathlib import Path
from typing import Any

from spillway.cli.output import PEOPLE, print_json
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.records.campaign import read_manifest
from spillway.records.figures import size
from spillway.records.placing import hosts_json
from spillway.records.reading import read_moves, read_progress, read_waits
from spillway.report.pages import report_page


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's directory")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write the page (default: RUN/report.html)"
    )


def main(options: argparse.Namespace) -> int:
    output = options.output or options.run / "report.html"
    data = report_page(options.run).encode()
    try:
        write_whole(output, data)
    except OSError as error:
        raise RunError(
            f"The report cannot be written to {output} ({error.strerror}). Name another --output."
        ) from error
    if options.json:
        print_json({"report": str(output), "bytes": len(data), **_hosts(options.run)})
        return 0
    PEOPLE.print(f"{output} ({size(len(data))}): open it in any browser; it needs no network.", soft_wrap=True)
    return 0


def _hosts(run: Path) -> dict[str, Any]:
    """Hosts, moves and waits, where it is a run that is reported."""
    if read_manifest(run).get("kind", "run") != "run":
        return {}
    return hosts_json(read_progress(run).rows, read_moves(run), read_waits(run))
