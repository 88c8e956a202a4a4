"""``spillway model draw``: a net as SVG, whole or one operator of it."""

import argparse
from pathlib import Path

from spillway.cli.output import PEOPLE, print_json
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.model.faults import Faults
from spillway.model.protections import NoProtection
from spillway.model.stream_net import build
from spillway.papers.dissertation.bargain import CHECKPOINT, HIGH_AVAILABILITY, REPLICATION, bargain
from spillway.records.figures import size
from spillway.san.drawing import draw

MEANING = "the net of Bargain Discovery under a protection, or of one of its operators, as SVG"

PROTECTIONS = {
    "nothing": NoProtection(),
    "checkpoint": CHECKPOINT,
    "high-availability": HIGH_AVAILABILITY,
    "replication": REPLICATION,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--protection", choices=sorted(PROTECTIONS), default="checkpoint", help="default: checkpoint")
    parser.add_argument("--operator", help="only what this operator does, and the places it touches")
    parser.add_argument("--faults", choices=["none", "crash", "corruption"], default="none", help="default: none")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the SVG goes (default: net.svg)")


def main(options: argparse.Namespace) -> int:
    rate = 1.85e-4
    faults = {"none": Faults(), "crash": Faults(crash_rate=rate), "corruption": Faults(corruption_rate=rate)}
    stream = build(bargain(450.0), PROTECTIONS[options.protection], faults[options.faults])
    net = stream.part(options.operator) if options.operator else stream.net
    output = options.output or Path("net.svg")
    data = draw(net).encode()
    try:
        write_whole(output, data)
    except OSError as error:
        raise RunError(
            f"The drawing cannot be written to {output} ({error.strerror}). Name another --output."
        ) from error
    if options.json:
        drawn = {"places": len(net.places), "activities": len(net.activities)}
        print_json({"drawing": str(output), "bytes": len(data), **drawn})
        return 0
    PEOPLE.print(f"{output} ({size(len(data))}): {net}.", soft_wrap=True)
    return 0
