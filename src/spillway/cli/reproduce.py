"""``spillway reproduce af``: the experiments of AF-Stream, with the paper's figures beside ours."""

import argparse
import time
from pathlib import Path
from typing import Any

from spillway.cli.directories import run_directory
from spillway.cli.numbers import seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.papers.af.accuracy import STUDIES, Point, Study, points
from spillway.papers.af.theorems import check_heavy_hitters, check_join
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Reproduction
from spillway.report.af_page import af_page, charts

_THETAS = (100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)
_LIMITS = (100.0, 10_000.0, 1_000_000.0)

_PUBLISHED: dict[str, dict[str, Any]] = {
    "theta": {
        "text": "The paper, on 10 workers: 33 % below no state backups at theta 1, 10 % below at theta 10; state "
        "backups for less than 30 % of items from theta 10 on; recovery in less than a second, shorter for a larger "
        "theta. A backup is looked at when a batch ends here, and for every item there, so our share is one of batches."
    },
    "items": {
        "text": "The paper backs up less than 20 % of items at theta 10 and above, with L = 1: its workers take items "
        "one by one and few ever wait. Spark takes a batch at a time, and what comes while it is busy waits: below "
        "the size of a batch L makes nearly every item durable, above it none."
    },
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", choices=["af"], help="af: AF-Stream, approximate fault tolerance")
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer points, in minutes")
    parser.add_argument("--only", choices=["accuracy", "theta", "items", "theorems"], help="one part alone")
    parser.add_argument("--seed", type=seed, default=1, help="of the inputs (default: 1)")
    parser.add_argument("--directory", type=Path, help="where records, charts and report.html go (default: a new one)")


def main(options: argparse.Namespace) -> int:
    began_s = time.monotonic()
    records = Reproduction(paper="af", settings={"quick": options.quick, "seed": options.seed})
    parts = [options.only] if options.only else ["accuracy", "theorems", "theta", "items"]
    if "accuracy" in parts:
        _accuracy(records, options)
    if "theorems" in parts:
        _theorems(records, options)
    if "theta" in parts or "items" in parts:
        _on_spark(records, options, parts)
    records.settings["seconds"] = time.monotonic() - began_s
    path = run_directory(options.directory, "reproduce-af")
    _write(records, path)
    if options.json:
        print_json({"directory": str(path), "checks": records.checks, "tables": records.tables, **records.settings})
    else:
        _show(records, path)
    return 0 if all(records.checks.values()) else 1


def _accuracy(records: Reproduction, options: argparse.Namespace) -> None:
    failures = (0, 1, 3, 10) if options.quick else tuple(range(11))
    for name, study in STUDIES.items():
        found = []
        for point in points(name, failures=failures, seed=options.seed, quick=options.quick):
            found.append(point)
            records.add("accuracy", point.as_row())
            PROGRESS.print(
                f"{name}, theta {point.theta:,g}, {point.failures} failures: {study.measure} "
                f"{point.scores[study.measure]:.4f}, losses {'within' if point.within_bounds else 'BEYOND'} bounds"
            )
        records.published[name] = _published(study)
        records.checks |= _judged(name, study, found)


def _published(study: Study) -> dict[str, Any]:
    after = "; ".join(f"{s.paper_after_ten:.1%} at {s.paper_theta}" for s in study.settings)
    return {
        "text": f"The paper: {study.measure.replace('_', ' ')} {study.paper_without:.1%} without failures; after ten, "
        f"{after}.",
        "without": study.paper_without,
        "settings": [{"name": s.paper_theta, "after_ten": s.paper_after_ten} for s in study.settings],
    }


def _judged(name: str, study: Study, found: list[Point]) -> dict[str, bool]:
    """What the figures must show, in words."""
    worst = max(_worse(study, found, point) for point in found)
    checks = {f"{name}: every loss within its proven bound": all(point.within_bounds for point in found)}
    if name == "hitters":
        checks["hitters: recall 1.0 after every number of failures"] = all(p.scores["recall"] == 1.0 for p in found)
    allowed = {"hitters": 0.03, "join": 0.01, "lr": 0.005}[name]
    words = study.measure.replace("_", " ")
    checks[f"{name}: {words} at most {allowed * 100:g} points worse than without failures"] = worst <= allowed
    return checks


def _worse(study: Study, found: list[Point], point: Point) -> float:
    """By how much a point is worse than the run of the same setting without failures."""
    (without,) = (p for p in found if p.theta == point.theta and p.failures == 0)
    change = point.scores[study.measure] - without.scores[study.measure]
    return change if study.better == "lower" else -change


def _theorems(records: Reproduction, options: argparse.Namespace) -> None:
    PROGRESS.print("theorem 1: every key of a window, through one failure")
    first = check_heavy_hitters(theta=12_500, items=20, batches=22, seed=options.seed)
    records.add(
        "theorems",
        {
            "theorem": "1, Count-Min",
            "says": f"no heavy key missed; a light one reported with probability at most {first.probability_bound:g}",
            "found": f"{first.missed} of {first.heavy} missed; {first.falsely_reported} of {first.light:,} light keys "
            f"reported ({first.probability:.2g})",
            "holds": first.holds,
        },
    )
    records.checks["theorem 1: Count-Min with compensation"] = first.holds
    runs = 20 if options.quick else 100
    PROGRESS.print(f"theorem 2: {runs} samples, each through five failures")
    second = check_join(theta=200, items=200, batches=8, failures=5, runs=runs, seed=options.seed)
    records.add(
        "theorems",
        {
            "theorem": "2, ripple join",
            "says": f"at most {second.lost_bound:g} sampled tuples lost; the widened 95 % interval covers the truth",
            "found": f"{second.lost} of {second.sampled:,} lost; {second.covered} of {second.runs} covered",
            "holds": second.holds,
        },
    )
    records.checks["theorem 2: ripple join"] = second.holds


def _on_spark(records: Reproduction, options: argparse.Namespace, parts: list[str]) -> None:
    from spillway.papers.af.tradeoff import against_items, against_theta
    from spillway.spark import session

    PROGRESS.print("Starting Spark.")
    spark = session()
    if "theta" in parts:
        records.published["theta"] = _PUBLISHED["theta"]
        batches, each = (12, 20_000) if options.quick else (24, 50_000)
        for theta in against_theta(spark, _THETAS, batches=batches, tuples_per_batch=each, seed=options.seed):
            records.add("theta", theta.as_row())
            PROGRESS.print(
                f"theta {theta.theta:,g}: {theta.tuples_per_s:,.0f} lines/s, {theta.backup_fraction:.0%} backed up, "
                f"recovery {theta.recover_s * 1000:.0f} ms"
            )
    if "items" in parts:
        records.published["items"] = _PUBLISHED["items"]
        count = 400_000 if options.quick else 2_000_000
        for items in against_items(spark, _LIMITS, items=count, seed=options.seed):
            records.add("items", items.as_row())
            PROGRESS.print(f"L {items.items:,g}: {items.items_per_s:,.0f} lines/s, {items.saved_fraction:.0%} saved")
        records.checks["receiver: nothing lost without failures"] = all(
            row["lost"] == 0 for row in records.tables["items"]
        )


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
    for says, holds in records.checks.items():
        PEOPLE.print(f"{'holds' if holds else 'DOES NOT HOLD'}: {says}")
    PEOPLE.print(f"{records.settings['seconds']:.0f} s. Records, charts and report.html are in {path}.", soft_wrap=True)
