"""``spillway reproduce af``: the experiments of AF-Stream, with the paper's figures beside ours."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from spillway.cli.directories import run_directory
from spillway.cli.numbers import seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.papers.af.accuracy import STUDIES
from spillway.papers.af.reproduction import PARTS, reproduce
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Reproduction
from spillway.report.af_page import af_page, charts


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", choices=["af"], help="af: AF-Stream, approximate fault tolerance")
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer points, in minutes")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--seed", type=seed, default=1, help="of the inputs (default: 1)")
    parser.add_argument("--directory", type=Path, help="where records, charts and report.html go (default: a new one)")


def main(options: argparse.Namespace) -> int:
    began_s = time.monotonic()
    parts = [options.only] if options.only else PARTS
    records = reproduce(parts=parts, quick=options.quick, seed=options.seed, tell=PROGRESS.print)
    records.settings["seconds"] = time.monotonic() - began_s
    path = run_directory(options.directory, "reproduce-af")
    _write(records, path)
    if options.json:
        checks = [asdict(check) for check in records.checks]
        print_json({"directory": str(path), "checks": checks, "tables": records.tables, **records.settings})
    else:
        _show(records, path)
    return 0 if records.all_hold else 1


def _write(records: Reproduction, path: Path) -> None:
    records.write(path)
    manifest = read_manifest(path)
    try:
        write_whole(path / "report.html", af_page(path, manifest).encode())
        for name, svg in charts(path, manifest).items():
            write_whole(path / name, svg.encode())
    except OSError as error:
        raise RunError(f"The page cannot be written to {path} ({error.strerror}). Name another --directory.") from error


def _show(records: Reproduction, path: Path) -> None:
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
    for check in records.checks:
        PEOPLE.print(f"{'holds' if check.holds else 'DOES NOT HOLD'}: {check.name}")
    PEOPLE.print(f"{records.settings['seconds']:.0f} s. Records, charts and report.html are in {path}.", soft_wrap=True)
