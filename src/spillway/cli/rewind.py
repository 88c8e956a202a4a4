"""``spillway rewind RUN --to BATCH``: send a stopped run back, so that what came after is done once more."""

import argparse
from pathlib import Path

from spillway.cli.output import PEOPLE, print_json
from spillway.engine.sending_back import StoppedJob
from spillway.errors import RunError
from spillway.records.campaign import read_manifest
from spillway.records.reading import Life, life_of


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's directory")
    parser.add_argument(
        "--to",
        type=int,
        metavar="BATCH",
        help="the last batch that is to count; without it, those that the run can be sent back to are listed",
    )


def main(options: argparse.Namespace) -> int:
    manifest = read_manifest(options.run)
    if manifest.get("kind", "run") != "run" or not manifest.get("checkpoint"):
        raise RunError(f"{options.run} is not the directory of a run that can be resumed: nothing there can go back.")
    if life_of(options.run, manifest) is Life.RUNNING:
        raise RunError(f"The run in {options.run} is running. Stop it first.")
    job = StoppedJob(
        graph=manifest["graph"],
        backups=manifest["backups"],
        checkpoint=manifest["checkpoint"],
        parquet=[sink["path"] for sink in manifest["sinks"].values() if "path" in sink],
    )
    committed = job.committed()
    if options.to is None:
        return _list(options, job.checkpoints(), committed=committed)
    job.send_back(options.to)
    tables = [name for name, sink in manifest["sinks"].items() if "table" in sink]
    forgetful = [
        f"{name} ({sink['kind']})" for name, sink in manifest["sinks"].items() if not {"path", "table"} & sink.keys()
    ]
    if options.json:
        print_json(
            {"to": options.to, "from": committed, "sinks_left_alone": forgetful, "tables_taken_back_later": tables}
        )
        return 0
    PEOPLE.print(
        f"Sent back from batch {committed} to batch {options.to}: resume the run, and batch {options.to + 1} comes "
        f"next.",
        soft_wrap=True,
    )
    if tables:
        PEOPLE.print(
            f"These sinks are tables, from which the run takes back what came after when it is resumed: "
            f"{', '.join(tables)}.",
            soft_wrap=True,
            markup=False,
        )
    if forgetful:
        PEOPLE.print(
            f"These sinks are not folders, and have what they were given: {', '.join(forgetful)}.",
            soft_wrap=True,
            markup=False,
        )
    return 0


def _list(options: argparse.Namespace, found: list[int], *, committed: int) -> int:
    if options.json:
        print_json({"checkpoints": found, "committed": committed})
        return 0
    if not found:
        PEOPLE.print(f"The run is at batch {committed}, and has no checkpoint that it could be sent back to.")
        return 0
    PEOPLE.print(
        f"The run is at batch {committed}, and can be sent back to batch {', '.join(map(str, found))}.", soft_wrap=True
    )
    return 0
