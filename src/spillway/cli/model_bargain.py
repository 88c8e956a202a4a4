"""``spillway model bargain``: the experiments of seed 001, chapter 5, and what the seed says beside each result."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillway.cli.model_output import add_run_options, print_points, save, told
from spillway.cli.output import PEOPLE, print_json, print_table
from spillway.model.simulating import PAPER_RULE, QUICK_RULE, Result, Setting, run_settings
from spillway.papers.dissertation.experiments import EXPERIMENTS, sdc
from spillway.papers.dissertation.experiments import crash as crash_settings
from spillway.papers.dissertation.statements import TABLE_5_4, statements
from spillway.parallel import open_pool
from spillway.records.model import ModelRecords, PublishedRow, StatementRow

MEANING = "Bargain Discovery under checkpoints, high-availability groups and full replication, as the paper tried it"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--experiment", choices=[*EXPERIMENTS, "all"], default="all", help="which to run (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="200 runs and fewer points instead of the paper's rule")
    add_run_options(parser)


def main(options: argparse.Namespace) -> int:
    names = list(EXPERIMENTS) if options.experiment == "all" else [options.experiment]
    rule = QUICK_RULE if options.quick else PAPER_RULE
    began_s = time.monotonic()
    results = []
    with open_pool(processes=options.processes, master=options.master) as pool:
        for name in names:
            results.append(
                run_settings(
                    name,
                    _settings(name, quick=options.quick),
                    seed=options.seed,
                    precision=rule,
                    pool=pool,
                    progress=told(name),
                )
            )
    judged = tuple(row for result in results for row in _judged(result))
    records = ModelRecords(
        modelled="bargain",
        settings={"experiments": names, "seed": options.seed, "quick": options.quick, **asdict(rule)},
        points=pa.concat_tables([result.table() for result in results]),
        statements=judged,
        published=_published(names),
        about={"seconds": round(time.monotonic() - began_s, 1)},
    )
    directory = save(records, options.directory)
    if options.json:
        print_json(_as_json(records, directory))
        return 0
    for result in results:
        print_points(result)
    print_table(
        "What the paper says",
        ["statement", "here it", "found"],
        [[row.says, row.verdict, row.found] for row in judged],
    )
    PEOPLE.print(f"{records.about['seconds']:.0f} s. Records and report.html are in {directory}.", soft_wrap=True)
    return 0


def _settings(name: str, *, quick: bool) -> list[Setting]:
    if quick and name == "crash":
        return crash_settings(rates=(250.0, 550.0))
    if quick and name == "sdc":
        return sdc(rates=(250.0, 550.0))
    return EXPERIMENTS[name]()


def _judged(result: Result) -> list[StatementRow]:
    return [StatementRow(experiment=result.experiment, **asdict(statement)) for statement in statements(result)]


def _published(names: list[str]) -> tuple[PublishedRow, ...]:
    if "validation" not in names:
        return ()
    return tuple(
        PublishedRow(experiment="validation", crashed=row.operator, measure=measure, value=value)
        for row in TABLE_5_4
        for measure, value in (("availability", row.availability), ("tainted", row.tainted))
    )


def _as_json(records: ModelRecords, directory: Path) -> dict[str, Any]:
    return {
        "modelled": records.modelled,
        "directory": str(directory),
        "settings": records.settings,
        **records.about,
        "points": records.points.to_pylist(),
        "statements": [asdict(row) for row in records.statements],
        "published": [asdict(row) for row in records.published],
    }
