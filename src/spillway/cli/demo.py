"""``spillway demo``: heavy hitters, all memory lost twice in mid-stream, and what each protection saves."""

import argparse
import time
from dataclasses import asdict
from statistics import median

from rich.console import RenderableType

from spillway.benches.demonstration import Demonstration, Outcome, Standing
from spillway.cli.live import display
from spillway.cli.numbers import seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, rate
from spillway.cli.tables import fitted
from spillway.graph import Approximate
from spillway.records.figures import size
from spillway.spark import session

DEMONSTRATION = Demonstration()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=seed, default=1, help="of the packets (default: 1)")


def main(options: argparse.Namespace) -> int:
    started_s = time.monotonic()
    shown = DEMONSTRATION
    if not options.json:
        drawing = shown.graph(shown.packets(options.seed), Approximate(shown.theta_bytes)).draw()
        PEOPLE.print(drawing, markup=False, soft_wrap=True)
    PROGRESS.print(
        f"{shown.batches} batches of {shown.packets_per_batch:,} packets, by {len(shown.trials)} runs of this and by "
        f"Spark's own state store, in turn."
    )
    with display(quiet=options.json) as show:
        outcomes = shown.run(
            options.seed, session, show=lambda standings: show(_live(shown, standings)), tell=PROGRESS.print
        )
    elapsed_s = time.monotonic() - started_s
    kept = all(outcome.kept for outcome in outcomes.values())
    if options.json:
        print_json(
            {**{name: asdict(outcome) for name, outcome in outcomes.items()}, "seconds": elapsed_s, "kept": kept}
        )
    else:
        _show(shown, outcomes)
        PEOPLE.print(f"{elapsed_s:.0f} s in all.")
    return 0 if kept else 1


def _live(shown: Demonstration, standings: list[Standing]) -> RenderableType:
    rows = [
        [
            standing.name,
            f"{standing.batches} of {shown.batches}",
            "-" if standing.batch_s is None else rate(shown.packets_per_batch / standing.batch_s),
            f"{standing.backups}/{standing.backup_chances}",
            size(standing.backup_bytes),
        ]
        for standing in standings
    ]
    return fitted("", ["run", "batches", "packets", "backups", "written"], rows, width=PROGRESS.width)


def _show(shown: Demonstration, outcomes: dict[str, Outcome]) -> None:
    def row(name: str, outcome: Outcome) -> list[str]:
        return [
            name,
            "-" if outcome.tuples_per_s is None else rate(outcome.tuples_per_s).removesuffix("/s"),
            f"{outcome.backups}/{outcome.backup_chances}" if outcome.backup_chances else "-",
            size(outcome.backup_bytes),
            _off(outcome),
            f"{outcome.recall:.0%}",
            f"{outcome.precision:.0%}",
        ]

    after = " and ".join(map(str, shown.losses_after))
    print_table(
        f"Flows of {size(shown.phi_bytes)} or more, all memory lost after batches {after} of {shown.batches}",
        ["run", "packets", "backups", "written", "error/bound", "recall", "precision"],
        [row(name, outcome) for name, outcome in outcomes.items()],
    )
    PEOPLE.print(
        f"ideal: without failures, in one process. spark: exact sums in Spark's HDFS-backed state store, which loses "
        f"no memory here. packets: a second, in the median of {len(shown.measured)} batches without a recovery, after "
        f"{shown.warm_up} to warm up. error: of the counter that is furthest from the ideal. recall, precision: of "
        f"what the last batch reports."
    )
    PEOPLE.print(f"\n{_conclusion(outcomes)}")


def _off(outcome: Outcome) -> str:
    """The error and its bound, the unit once where it is the same: the table is to fit 80 columns."""
    if outcome.bound is None:
        return f"{size(outcome.error)}/none"
    error, bound = size(outcome.error), size(outcome.bound)
    unit = bound[bound.index(" ") :]
    return f"{error.removesuffix(unit)}/{bound}" if error.endswith(unit) else f"{error}/{bound}"


def _conclusion(outcomes: dict[str, Outcome]) -> str:
    """What was saved, and at what price, as far as it was."""
    nothing, approximate, exact, spark = (outcomes[name] for name in ("nothing", "approximate", "exact", "spark"))
    missed = "missed no heavy flow" if approximate.recall == 1 else "MISSED SOME HEAVY FLOWS"
    assert approximate.bound is not None
    within = "within" if approximate.error <= approximate.bound else "NOT WITHIN"
    return (
        f"After {approximate.losses} losses of all memory Approximate was off by {size(approximate.error)}, {within} "
        f"its bound of {size(approximate.bound)}, and {missed}; Nothing found {nothing.recall:.0%} of them. "
        f"Approximate made {approximate.backups} backups where Exact made {exact.backups}, and wrote "
        f"{size(approximate.backup_bytes)} where Exact wrote {size(exact.backup_bytes)} and Spark's state store "
        f"{size(spark.backup_bytes)}. It was {_compared(approximate, nothing)} Nothing, "
        f"{_compared(approximate, exact)} Exact and {_compared(approximate, spark)} Spark's state store."
    )


def _compared(one: Outcome, other: Outcome) -> str:
    """How fast one system was beside another, if every batch says the same of which was faster."""
    ratios = [theirs / mine for mine, theirs in zip(one.batches_s, other.batches_s, strict=True)]
    if min(ratios) <= 1 <= max(ratios):
        return "about as fast as"
    return f"{'only ' if max(ratios) < 1 else ''}{median(ratios):.2g} times as fast as"
