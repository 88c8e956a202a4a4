"""``spillway inject CAMPAIGN``: break a pipeline on purpose, operator by operator, and tell what each fault does."""

import argparse
import os
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.errors import RunError
from spillway.inject import Campaign, Planned, plan, read_campaign, run_campaign
from spillway.inject.cost import full_run_s
from spillway.inject.golden import why_full
from spillway.inject.running import Progress as CampaignProgress
from spillway.papers.injection.designs import DESIGNS
from spillway.parallel import open_pool
from spillway.records.campaign import CampaignRecords
from spillway.records.campaign_rows import MetricsRow


def add_options(parser: argparse.ArgumentParser) -> None:
    named = f"a TOML file, or a design that comes with Spillway: {', '.join(DESIGNS)}"
    parser.add_argument("campaign", metavar="CAMPAIGN", help=named)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--full", action="store_true", help="of a design: the whole (bargain: 5 million tuples, as in the paper)"
    )
    size.add_argument("--quick", action="store_true", help="of a design: a small one of its shape (the default)")
    parser.add_argument("--directory", type=Path, help="where records and the result go (default: a new one in runs/)")
    parser.add_argument("--resume", action="store_true", help="go on with the campaign in --directory")
    parser.add_argument("--seed", type=int, help="of the input and the order of arrival (default: as declared, or 1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many (default: all cores)")
    parser.add_argument("--master", help="run trials as Spark tasks there instead, such as local[2,4]")
    parser.add_argument("--explain", action="store_true", help="say which operators would be struck and why, and stop")


def main(options: argparse.Namespace) -> int:
    started_s = time.monotonic()
    campaign = _campaign(options)
    planned = plan(campaign)
    if options.explain:
        _explain(planned, options.json)
        return 0
    directory = options.directory or Path("runs") / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-inject-{campaign.name}"
    _check_directory(directory, options.resume)
    reason = why_full(campaign.input())
    if reason:
        PROGRESS.print(f"Every trial runs from start to end: {reason}.")
    with ExitStack() as stack:
        observed = _Observed(stack, quiet=options.json)
        pool = stack.enter_context(open_pool(processes=max(options.processes, 1), master=options.master))
        records = run_campaign(planned, directory, pool=pool, observe=observed)
        observed.close()
    elapsed_s = time.monotonic() - started_s
    naive_s = full_run_s(campaign) * (len(records.trials) + len(records.golden))
    figures = {
        "directory": str(directory),
        "seconds": elapsed_s,
        "trials": len(records.trials),
        "golden_runs": len(records.golden),
        "trials_per_s": len(records.trials) / elapsed_s,
        "naive_core_seconds": naive_s,
    }
    if options.json:
        print_json(_told(records, planned) | figures)
    else:
        _show(records, planned)
        PEOPLE.print(
            f"{figures['trials']:,} trials and {figures['golden_runs']:,} golden runs in {elapsed_s:.1f} s: "
            f"{figures['trials_per_s']:.1f} trials/s. From start to end each, they would take {naive_s:,.0f} s of one "
            f"core.\nRecords and result are in {directory}; spillway report {directory} shows them.",
            soft_wrap=True,
        )
    return 0


class _Observed:
    """A progress bar on standard error, with the time that is left."""

    def __init__(self, stack: ExitStack, *, quiet: bool) -> None:
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self._bar = stack.enter_context(Progress(*columns, console=PROGRESS, disable=quiet))
        self._task = self._bar.add_task("golden runs", total=None)

    def __call__(self, progress: CampaignProgress) -> None:
        self._bar.update(self._task, description=progress.doing, completed=progress.done, total=progress.total)

    def close(self) -> None:
        self._bar.update(self._task, description="done")


def _campaign(options: argparse.Namespace) -> Campaign:
    design = DESIGNS.get(options.campaign)
    if design is not None:
        return design("full" if options.full else "quick", seed=1 if options.seed is None else options.seed)
    if options.full or options.quick:
        names = ", ".join(DESIGNS)
        raise RunError(f"--full and --quick are for designs ({names}); a campaign in a file says how large it is.")
    campaign = read_campaign(Path(options.campaign))
    return campaign if options.seed is None else replace(campaign, seed=options.seed)


def _check_directory(directory: Path, resume: bool) -> None:
    there = (directory / "manifest.json").exists()
    if resume and not there:
        raise RunError(f"There is no campaign to resume in {directory}.")
    if there and not resume:
        raise RunError(f"{directory} holds a run already: say --resume to go on with it, or name another directory.")


def _explain(planned: Planned, json: bool) -> None:
    if json:
        print_json({"operators": [asdict(choice) for choice in planned.choices]})
        return
    PEOPLE.print(f"Where faults go in {planned.campaign.name}, and why:")
    width = max(len(choice.operator) for choice in planned.choices)
    for choice in planned.choices:
        struck = "struck " if choice.chosen else "skipped"
        PEOPLE.print(f"  {choice.operator:{width}}  {struck}  {choice.reason}", soft_wrap=True)


def _told(records: CampaignRecords, planned: Planned) -> dict[str, Any]:
    return {
        "campaign": planned.campaign.name,
        "rates": dict(planned.declaration.rates),
        "operators": [asdict(choice) for choice in planned.choices],
        "metrics": [asdict(row) for row in records.metrics],
    }


def _show(records: CampaignRecords, planned: Planned) -> None:
    rate = planned.declaration.rate_max
    rows = [row for row in records.metrics if row.rate == rate]
    for name in dict.fromkeys(row.plan for row in rows):
        title = f"{planned.campaign.name} at {rate} rate, outage {planned.declaration.outage_max_s:g} s"
        assumed = next((one.protection for one in planned.declaration.reconfigurations if one.name == name), "")
        print_table(
            f"{title}; {assumed}" if assumed else title,
            ["operator", "Coq", "sigma", "ANOVA", "Rlq", "Ilq", "QS"],
            [_figures(row) for row in rows if row.plan == name],
        )


def _figures(row: MetricsRow) -> list[str]:
    anova = {None: "-", True: "accepted", False: "rejected"}[row.anova_accepted]
    numbers = ["-" if number is None else f"{number:.2f}" for number in (row.coq, row.sigma)]
    return [row.target, *numbers, anova, str(row.rlq_sections), f"{row.ilq:.2f}", f"{row.qs:.2f}"]
