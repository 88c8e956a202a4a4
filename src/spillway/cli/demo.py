"""``spillway demo``: heavy hitters, all memory lost three times in mid-stream, and what each protection saved."""

import argparse
import time
from dataclasses import asdict
from typing import Any

from spillway.benches.demonstration import Demonstration, Outcome
from spillway.cli.live import watch
from spillway.cli.numbers import seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, rate, size
from spillway.graph import Approximate
from spillway.spark import session

DEMONSTRATION = Demonstration()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=seed, default=1, help="of the packets (default: 1)")


def main(options: argparse.Namespace) -> int:
    started_s = time.monotonic()
    shown = DEMONSTRATION
    feed = shown.packets(options.seed)
    if not options.json:
        PEOPLE.print(shown.graph(feed, Approximate(shown.theta_bytes)).draw(), markup=False)
    PROGRESS.print(
        f"Starting Spark, then {shown.batches} batches of {shown.packets_per_batch:,} packets, {len(shown.trials)} "
        f"times over."
    )
    outcomes = shown.run(
        feed, session(), watch=lambda run, name: watch(run, name, quiet=options.json), tell=PROGRESS.print
    )
    elapsed_s = time.monotonic() - started_s
    kept = all(outcome.kept for outcome in outcomes.values())
    if options.json:
        print_json(
            {**{name: asdict(outcome) for name, outcome in outcomes.items()}, "seconds": elapsed_s, "kept": kept}
        )
    else:
        _show(shown, outcomes, elapsed_s)
    return 0 if kept else 1


def _show(shown: Demonstration, outcomes: dict[str, Outcome], elapsed_s: float) -> None:
    def row(name: str, outcome: Outcome) -> list[Any]:
        return [
            name,
            size(outcome.error),
            "none" if outcome.bound is None else size(outcome.bound),
            f"{outcome.backups}/{outcome.backup_chances}",
            size(outcome.backup_bytes),
            rate(outcome.tuples_per_s),
            f"{outcome.recall:.0%}",
            f"{outcome.precision:.0%}",
        ]

    after = ", ".join(map(str, shown.losses_after))
    print_table(
        f"Heavy hitters, all memory lost after batches {after} of {shown.batches} (ideal: never)",
        ["run", "error", "bound", "backups", "written", "packets", "recall", "precision"],
        [row(name, outcome) for name, outcome in outcomes.items()],
    )
    approximate = outcomes["approximate"]
    missed = "no heavy flow" if approximate.recall == 1 else "SOME HEAVY FLOWS"
    PEOPLE.print(
        f"Approximate: every counter within {approximate.bound:,.0f} bytes of the ideal after {approximate.losses} "
        f"losses of all memory (measured: {approximate.error:,.0f}), with {approximate.backups} backups instead of "
        f"{outcomes['exact'].backups}, and {missed} missed. {elapsed_s:.0f} s in all.",
        soft_wrap=True,
    )
