"""``spillway model compare APP``: every protection of a graph side by side, before any is built."""

import argparse
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from spillway.cli.model_output import add_run_options, print_points, save, told
from spillway.cli.output import PEOPLE, PROGRESS, print_json
from spillway.cli.profile import add_app, add_input_options, build_graph, measured
from spillway.cli.protection import MODELLED_FORMS, parse_modelled
from spillway.errors import ModelError
from spillway.graph import Graph
from spillway.model.comparison import comparison, everything, techniques
from spillway.model.faults import Faults
from spillway.model.from_graph import flow_of
from spillway.model.profile import Profile, load_profile
from spillway.model.protections import Around
from spillway.model.simulating import HORIZON_S, PAPER_RULE, QUICK_RULE, run_settings
from spillway.parallel import open_pool
from spillway.records.model import ModelRecords

MEANING = "the protections of a graph, side by side: availability, tainted and lost tuples, cost"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_app(parser)
    parser.add_argument("--profile", type=Path, metavar="FILE", help="as spillway profile wrote it (default: measure)")
    parser.add_argument("--rate", type=float, help="tuples per second from outside (default: as the profile says)")
    parser.add_argument("--crash-rate", type=float, default=1.85e-4, help="per operator and second (default: 1.85e-4)")
    parser.add_argument("--corruption-rate", type=float, default=0.0, help="silent ones, the same way (default: 0)")
    parser.add_argument("--recovery", type=float, default=3.5, help="seconds from a crash to a restart (default: 3.5)")
    parser.add_argument("--hours", type=float, default=HORIZON_S / 3600, help="of every run (default: 2)")
    parser.add_argument(
        "--protect",
        action="append",
        type=parse_modelled,
        metavar="PROTECTION",
        help=f"only these; repeat (default: all): {MODELLED_FORMS}",
    )
    parser.add_argument("--batch", type=float, default=1.0, help="seconds from one commit to the next (default: 1)")
    parser.add_argument("--takeover", type=float, default=0.0, help="seconds from detection to failover (default: 0)")
    parser.add_argument(
        "--catch-up", type=float, help="times as fast as tuples come (default: as the busiest operator can, up to 100)"
    )
    parser.add_argument(
        "--group", action="append", default=[], metavar="A,B", help="operators of one group or job; repeat"
    )
    parser.add_argument(
        "--together", action="append", default=[], metavar="A,B", help="operators on one machine crash as one; repeat"
    )
    parser.add_argument("--quick", action="store_true", help="200 runs of each instead of 1000 or more")
    add_input_options(parser)
    add_run_options(parser)


def main(options: argparse.Namespace) -> int:
    graph = build_graph(options)
    profile = _profile(options, graph)
    flow = flow_of(graph.checked(), profile, tuples_per_s=options.rate)
    if not 0 < options.hours <= 24 * 366:
        raise ModelError(f"--hours must lie above 0 and within a year; got {options.hours:g}.")
    faults = Faults(
        crash_rate=options.crash_rate,
        corruption_rate=options.corruption_rate,
        recovery_s=options.recovery,
        together=tuple(tuple(names.split(",")) for names in options.together),
    )
    around = Around(
        flow=flow,
        groups=tuple(tuple(names.split(",")) for names in options.group),
        batch_s=options.batch,
        takeover_s=options.takeover,
        catch_up=options.catch_up,
    )
    protections = options.protect or everything(flow)
    chosen = techniques(around, protections)
    rule = QUICK_RULE if options.quick else PAPER_RULE
    began_s = time.monotonic()
    with open_pool(processes=options.processes, master=options.master) as pool:
        result = run_settings(
            "compare",
            comparison(flow, chosen, faults, horizon_s=options.hours * 3600),
            seed=options.seed,
            precision=rule,
            pool=pool,
            progress=told("compare"),
        )
    records = ModelRecords(
        modelled=graph.name,
        settings={
            "seed": options.seed,
            "faults": asdict(faults),
            "protections": [each.describe() for each in protections],
            "groups": options.group,
            "batch_s": options.batch,
            "takeover_s": options.takeover,
            "catch_up": options.catch_up,
            **asdict(rule),
        },
        points=result.table(),
        statements=(),
        published=(),
        about={"seconds": round(time.monotonic() - began_s, 1)},
    )
    directory = save(records, options.directory)
    profile.save(directory / "profile.json")
    if options.json:
        print_json(
            {
                "modelled": graph.name,
                "directory": str(directory),
                "settings": records.settings,
                **records.about,
                "points": records.points.to_pylist(),
            }
        )
        return 0
    print_points(result)
    PEOPLE.print(f"Records, profile and report.html are in {directory}.", soft_wrap=True)
    return 0


def _profile(options: argparse.Namespace, graph: Graph) -> Profile:
    if options.profile is not None:
        return load_profile(options.profile)
    PROGRESS.print(f"Measuring {graph.name}.")
    with tempfile.TemporaryDirectory(prefix="spillway-profile-") as backups:
        return measured(graph, backups, tuples_per_s=options.rate)
