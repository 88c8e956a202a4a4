"""``spillway explain FILE``: where the time of an existing Spark streaming query goes, by its own reports."""

import argparse
from dataclasses import asdict, replace
from pathlib import Path

from spillway.cli.numbers import count
from spillway.cli.output import print_json, print_table, say
from spillway.errors import InputError
from spillway.records.advising import advised
from spillway.records.explaining import MEANINGS, NOTHING_YET, Explanation, explained, headline
from spillway.records.figures import size
from spillway.records.spark_reports import read_reports


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reports",
        type=Path,
        metavar="FILE",
        help="progress reports as JSON (for report in query.recentProgress: print(report.json)), or an event log of "
        "Spark's: a file, or a folder of its parts",
    )
    parser.add_argument("--query", metavar="NAME", help="this one of several, by its name or id (default: all)")
    parser.add_argument(
        "--cores",
        type=count,
        metavar="N",
        help="tasks that run at a time (default: what an event log says)",
    )


def main(options: argparse.Namespace) -> int:
    found = read_reports(options.reports)
    if options.query is not None:
        known = ", ".join(one.query for one in found)
        found = [one for one in found if one.query == options.query]
        if not found:
            raise InputError(f"{options.reports} has no query {options.query!r}; it has {known}.")
    if options.cores is not None:
        found = [replace(one, cores=options.cores) for one in found]
    explanations = [advised(explained(one)) for one in found]
    if options.json:
        print_json({"queries": [_as_json(one) for one in explanations]})
        return 0
    for one in explanations:
        _show(one)
    return 0


def _as_json(found: Explanation) -> dict[str, object]:
    return {**asdict(found), "shares": {part: found.share(part) for part in found.parts_ms}}


def _show(found: Explanation) -> None:
    if not found.batches:
        say(f"{found.query}: {NOTHING_YET}")
        return
    say(f"{found.query}: {headline(found)}")
    print_table(
        "Where a batch goes",
        ["part", "ms", "share", "what it is"],
        [[part, f"{spent:,.0f}", f"{found.share(part):.0%}", MEANINGS[part]] for part, spent in found.parts_ms.items()],
        words=("what it is",),
    )
    if found.operators:
        slots = found.tasks_at_a_time
        how = "as many tasks at a time as partitions" if slots is None else f"{slots} tasks at a time"
        print_table(
            f"State, its times spread evenly over {how}",
            ["operator", "store", "partitions", "rows", "memory", "rows changed", "ms of all tasks"],
            [
                [
                    one.name,
                    one.provider,
                    one.partitions,
                    f"{one.rows:,}",
                    size(one.memory_bytes),
                    f"{one.updated_rows:,.0f}",
                    f"{one.tasks_ms:,.0f}",
                ]
                for one in found.operators
            ],
            words=("store",),
        )
    for advice in found.advice:
        say(f"* {advice.text}")
