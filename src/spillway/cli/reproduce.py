"""``spillway reproduce``: the experiments of a paper, with its figures beside ours."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from spillway.cli.directories import run_directory
from spillway.cli.numbers import seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.papers.af import reproduction as af
from spillway.papers.af.accuracy import STUDIES
from spillway.papers.ecoc import reproduction as ecoc
from spillway.papers.ecoc.evaluation import PROCESSES
from spillway.papers.spade import reproduction as spade
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Reproduction, Row
from spillway.report.reproductions import reproduction_charts, reproduction_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """What can be reproduced of a paper."""

    meaning: str
    parts: Sequence[str]
    reproduce: Callable[..., Reproduction]
    show: Callable[[Reproduction], None]  # its tables, for people


def add_options(parser: argparse.ArgumentParser) -> None:
    meanings = "; ".join(f"{name}: {paper.meaning}" for name, paper in PAPERS.items())
    parser.add_argument("paper", choices=list(PAPERS), help=meanings)
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer points, in minutes")
    parts = "; ".join(f"of {name}: {', '.join(paper.parts)}" for name, paper in PAPERS.items())
    parser.add_argument("--only", metavar="PART", help=f"one part alone; {parts}")
    parser.add_argument("--seed", type=seed, default=1, help="of the inputs, and of when something fails (default: 1)")
    parser.add_argument("--directory", type=Path, help="where records, charts and report.html go (default: a new one)")
    parser.epilog = (
        "Exit status 0 means that all held that must. Of ecoc and spade, relations between curves of the paper's "
        "figures are listed with whether they hold, and decide nothing: machines differ."
    )


def main(options: argparse.Namespace) -> int:
    began_s = time.monotonic()
    paper = PAPERS[options.paper]
    if options.only is not None and options.only not in paper.parts:
        raise RunError(f"{options.paper} has parts {', '.join(paper.parts)}; there is no {options.only!r}.")
    parts = [options.only] if options.only else paper.parts
    records = paper.reproduce(parts=parts, quick=options.quick, seed=options.seed, tell=PROGRESS.print)
    records.settings["seconds"] = time.monotonic() - began_s
    path = run_directory(options.directory, f"reproduce-{options.paper}")
    _write(records, path)
    if options.json:
        checks = [{key: asdict(check)[key] for key in ("name", "holds", "ours", "paper")} for check in records.checks]
        decisive = [check.name for check in records.checks if check.decides]
        found = {"directory": str(path), "checks": checks, "decisive": decisive, "tables": records.tables}
        print_json({**found, **records.settings})
    else:
        paper.show(records)
        for check in records.checks:
            told = "holds" if check.holds else "DOES NOT HOLD" if check.decides else "does not hold here"
            PEOPLE.print(f"{told}: {check.name}", soft_wrap=True)
        seconds = records.settings["seconds"]
        PEOPLE.print(f"{seconds:.0f} s. Records, charts and report.html are in {path}.", soft_wrap=True)
    return 0 if records.all_hold else 1


def _write(records: Reproduction, path: Path) -> None:
    records.write(path)
    manifest = read_manifest(path)
    try:
        write_whole(path / "report.html", reproduction_page(path, manifest).encode())
        for name, svg in reproduction_charts(path, manifest).items():
            write_whole(path / name, svg.encode())
    except OSError as error:
        raise RunError(f"The page cannot be written to {path} ({error.strerror}). Name another --directory.") from error


def _show_af(records: Reproduction) -> None:
    for name, study in STUDIES.items():
        rows = [row for row in records.tables.get("accuracy", []) if row["workload"] == name]
        if rows:
            print_table(
                f"{name}: the paper has {study.paper_without:.1%} without failures",
                ["theta", "L", "failures", study.measure, "lost", "theta allows", "items", "L allows"],
                [
                    [
                        f"{row['theta']:,g}",
                        f"{row['items']:,g}",
                        row["failures"],
                        f"{row[f'score_{study.measure}']:.4f}",
                        f"{row['distance_sum']:,.4g}",
                        f"{row['theta_bound']:,g}",
                        row["items_lost"],
                        f"{row['items_bound']:,g}",
                    ]
                    for row in rows
                ],
            )


def _show_ecoc(records: Reproduction) -> None:
    overheads = records.tables.get("figure_23", [])
    if overheads:
        intervals = sorted({row["interval"] for row in overheads if row["interval"]})
        print_table(
            "bytes of checkpoints over bytes of elements, by elements between two checkpoints",
            ["process", "setting", *map(str, intervals)],
            [
                [process, setting, *(f"{_mean(overheads, process, setting, interval):.3f}" for interval in intervals)]
                for process, declared in PROCESSES.items()
                for setting in declared.settings
                if setting != "unsafe"
            ],
        )
    kills = records.tables.get("failures", [])
    if kills:
        print_table(
            "one job killed, its memory gone, another node takes over",
            ["process", "setting", "interval", "recovery", "catch-up", "tuples", "lost or wrong"],
            [
                [
                    row["process"],
                    row["setting"],
                    row["interval"],
                    f"{row['recovery_seconds']:.1f} s",
                    f"{row['catch_up_seconds']:.1f} s",
                    row["ideal_tuples"],
                    row["lost_tuples"] + row["wrong_tuples"],
                ]
                for row in kills
            ],
        )


def _show_spade(records: Reproduction) -> None:
    scenarios = records.tables.get("scenarios", [])
    if scenarios:
        print_table(
            "predictions from the crash of the model on, beside a run without (S1)",
            ["scenario", "runs", "RMSE", "largest", "paper: RMSE", "largest"],
            [
                [
                    row["scenario"],
                    row["runs"],
                    f"{row['rmse']:.3f} ({row['rmse_low']:.3f} to {row['rmse_high']:.3f})",
                    f"{row['largest']:.2f}",
                    "" if row["paper_rmse"] is None else f"{row['paper_rmse']:.2f}",
                    "" if row["paper_largest"] is None else f"{row['paper_largest']:g}",
                ]
                for row in scenarios
            ],
        )
    joins = records.tables.get("joins", [])
    if joins:
        print_table(
            "joins with checkpoints beside joins without: processor time for the same tuples",
            ["window", "every", "groups of", "overhead", "between", "saving", "tuples/s in"],
            [
                [
                    row["join"],
                    "never" if row["interval_s"] is None else f"{row['interval_s']:g} s",
                    "" if row["group"] is None else f"{row['group']:,}",
                    f"{1 - row['ratio']:.2%}",
                    f"{1 - row['ratio_high']:.2%} and {1 - row['ratio_low']:.2%}",
                    "" if row["interval_s"] is None else f"{row['saving_share']:.2%}",
                    f"{row['input_per_s']:,.0f}",
                ]
                for row in joins
            ],
        )


def _mean(rows: Sequence[Row], process: str, setting: str, interval: int) -> float:
    (found,) = (
        row["mean"] for row in rows if (row["process"], row["setting"], row["interval"]) == (process, setting, interval)
    )
    return float(found)


PAPERS: Mapping[str, Paper] = MappingProxyType(
    {
        "af": Paper(
            meaning="AF-Stream, approximate fault tolerance", parts=af.PARTS, reproduce=af.reproduce, show=_show_af
        ),
        "ecoc": Paper(
            meaning="efficient coordinated operator checkpointing, with real kills",
            parts=ecoc.PARTS,
            reproduce=ecoc.reproduce,
            show=_show_ecoc,
        ),
        "spade": Paper(
            meaning="checkpoints of single operators: crashes of a model, and what checkpoints of joins cost",
            parts=spade.PARTS,
            reproduce=spade.reproduce,
            show=_show_spade,
        ),
    }
)
