"""``spillway report RUN``: one HTML page from a run directory."""

import argparse
from pathlib import Path

from spillway.cli.output import PEOPLE, print_json, size
from spillway.errors import RunError
from spillway.files.durable import write_whole
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
        print_json({"report": str(output), "bytes": len(data)})
        return 0
    PEOPLE.print(f"{output} ({size(len(data))}): open it in any browser; it needs no network.", soft_wrap=True)
    return 0
