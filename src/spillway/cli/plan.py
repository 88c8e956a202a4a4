"""``spillway plan GRAPH``: the cheapest protection that keeps the answer good enough."""

import argparse
import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spillway.backup.written import Written
from spillway.cli.directories import run_directory
from spillway.cli.numbers import count, seconds, seed
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, say
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.inject import Campaign, read_campaign
from spillway.inject.running import Progress as CampaignProgress
from spillway.papers.injection.designs import DESIGNS
from spillway.parallel import open_pool
from spillway.plan.evidence import Evidence
from spillway.plan.judging import heeded
from spillway.plan.killing import Kills, prove_by_kills
from spillway.plan.planning import (
    CRASH_RATE,
    RESTART_S,
    TAKEOVER_S,
    WINDOW_S,
    Asked,
    choose,
    weigh,
    written,
)
from spillway.plan.problem import Wishes
from spillway.plan.proof import prove
from spillway.plan.reasons import rows_of
from spillway.records.campaign import read_manifest
from spillway.records.figures import size
from spillway.records.plan import OperatorRow, PlanRows
from spillway.report.plan_page import plan_page

REPETITIONS = 2  # of each fault: orders of arrival make far less of a difference than places


def add_options(parser: argparse.ArgumentParser) -> None:
    named = f"a campaign file, as inject takes, or a design that comes with Spillway: {', '.join(DESIGNS)}"
    parser.add_argument("graph", metavar="GRAPH", help=named)
    wishes = parser.add_argument_group("what is wanted")
    wishes.add_argument("--quality", type=float, help="of the answer after a fault, from 0 to 1")
    wishes.add_argument("--percentile", type=float, default=95.0, help="of all faults, after which it is (default: 95)")
    wishes.add_argument("--window", type=seconds, default=WINDOW_S, help="seconds it is told over (default: 600)")
    wishes.add_argument("--bytes-per-hour", type=float, metavar="BYTES", help="of backups at most, such as 1e9")
    wishes.add_argument("--lossless", metavar="SINK", help="nothing is lost of what reaches it")
    wishes.add_argument("--back-within", type=seconds, metavar="SECONDS", help="every operator answers again so soon")
    wishes.add_argument(
        "--rewinds",
        action="store_true",
        help="all may go back together and take back what they put out since, as under Coordinated (with --lossless: "
        "always weighed)",
    )
    fails = parser.add_argument_group("what can fail")
    fails.add_argument(
        "--fails", action="append", default=[], metavar="OPERATOR=TIMES", help="how often, the others once; repeat"
    )
    fails.add_argument(
        "--together",
        action="append",
        default=[],
        metavar="A,B",
        help="operators of a host, which fail as one; repeat",
    )
    fails.add_argument("--restart", type=seconds, default=RESTART_S, help="seconds it takes (default: 16)")
    fails.add_argument("--takeover", type=seconds, default=TAKEOVER_S, help="of a replica, once noticed (default: 1)")
    fails.add_argument(
        "--crash-rate", type=float, default=CRASH_RATE, help="per operator and second, for the model (default: 1.85e-4)"
    )
    size_of = parser.add_mutually_exclusive_group()
    size_of.add_argument("--full", action="store_true", help="evidence from the whole input of a design (the default)")
    size_of.add_argument("--quick", action="store_true", help="from a small one, at fewer places")
    parser.add_argument("--evidence", type=Path, metavar="DIR", help="of an earlier plan (default: a new one in runs/)")
    parser.add_argument(
        "--prove", action="store_true", help="try the plan, a cheaper and a dearer one by faults it was not made from"
    )
    parser.add_argument(
        "--kills",
        type=count,
        default=0,
        metavar="N",
        help="with --prove: run it for real, each operator killed N times",
    )
    parser.add_argument(
        "--write", type=Path, metavar="FILE.toml", help="the protections, for --protections of spillway run and job"
    )
    parser.add_argument("--batch", type=seconds, default=1.0, help="seconds from one commit to the next (default: 1)")
    parser.add_argument("--seed", type=seed, default=1, help="of the input and the order of arrival (default: 1)")
    parser.add_argument("--processes", type=count, default=os.cpu_count() or 1, help="how many (default: all cores)")


def main(options: argparse.Namespace) -> int:
    began_s = time.monotonic()
    asked = _asked(options)
    campaign = _campaign(options)
    directory = run_directory(options.evidence, f"plan-{campaign.name}")
    with ExitStack() as stack:
        observed = _Observed(stack, quiet=options.json)
        pool = stack.enter_context(open_pool(processes=options.processes))
        evidence = Evidence(directory, campaign, pool=pool, told=observed.told, observe=observed)
        weighed = weigh(evidence, asked)
        plan, judged = heeded(evidence, weighed, choose(weighed), pool=pool)
        protections = written(evidence, weighed, plan.chosen)  # whether asked for or not: refused if it may not run
        rows = replace(rows_of(evidence, weighed, plan, seconds=0.0), judged=judged)
        if options.prove:
            proof = prove(evidence, weighed, plan, pool=pool, told=observed.told, observe=observed)
            rows = replace(rows, proof=proof)
        if options.kills:
            killed = prove_by_kills(evidence, weighed, plan, Kills(rounds=options.kills), told=observed.told)
            rows = replace(rows, killed=(killed,))
    rows = replace(rows, seconds=time.monotonic() - began_s)
    figures = dict(evidence.records.figures)
    if not options.prove:
        figures["again_s" if "first_s" in figures else "first_s"] = rows.seconds  # the first has to measure everything
    evidence.keep(replace(evidence.records, rows=rows, figures=figures))
    _write_page(directory)
    if options.write is not None and rows.stands is not False:
        _write_protections(options.write, protections, rows)
    if options.json:
        print_json({"graph": evidence.graph.name, "directory": str(directory), **rows.as_json()})
    else:
        _show(evidence.graph.name, rows, directory)
        if options.write is not None and rows.stands is False:
            say(f"It does not stand, so {options.write} was not written.")
    return 1 if rows.stands is False else 0


def _asked(options: argparse.Namespace) -> Asked:
    if options.kills and not options.prove:
        raise RunError("--kills says how a plan is proven: say --prove, too.")
    if options.quality is None and options.lossless is None and options.back_within is None:
        raise RunError("Nothing is wished, and nothing is what the cheapest plan gives. Say --quality 0.97, for one.")
    return Asked(
        wishes=Wishes(
            quality=options.quality,
            percentile=options.percentile / 100,
            bytes_per_hour=options.bytes_per_hour,
            lossless=options.lossless,
            back_within_s=options.back_within,
        ),
        restart_s=options.restart,
        takeover_s=options.takeover,
        batch_s=options.batch,
        window_s=options.window,
        crash_rate=options.crash_rate,
        rewinds=options.rewinds,
        rates=dict(_times(given) for given in options.fails),
        together=tuple(tuple(names.split(",")) for names in options.together),
    )


def _times(given: str) -> tuple[str, float]:
    name, _, times = given.partition("=")
    try:
        return name, float(times)
    except ValueError:
        raise RunError(f"--fails wants OPERATOR=TIMES, such as VWAP=2; got {given!r}.") from None


def _campaign(options: argparse.Namespace) -> Campaign:
    design = DESIGNS.get(options.graph)
    if design is not None:
        found = design("quick" if options.quick else "full", seed=options.seed)
        repetitions = min(REPETITIONS, found.repetitions)
        return replace(found, name=options.graph, repetitions=repetitions, golden_repetitions=repetitions, assumed=())
    if options.quick or options.full:
        raise RunError(
            f"--full and --quick are for designs ({', '.join(DESIGNS)}); a campaign file says how large it is."
        )
    path = Path(options.graph)
    if not path.exists():
        raise RunError(
            f"There is no campaign file {path}, and designs that come with Spillway are {', '.join(DESIGNS)}. A plan "
            f"wants to know what the answer is scored by and where faults are tried, which a campaign says."
        )
    return read_campaign(path)


def _write_protections(path: Path, protections: Written, rows: PlanRows) -> None:
    comments = [
        f"The cheapest plan with {', '.join(f'{name} {value}' for name, value in rows.wishes.items())}, by spillway "
        f"plan. Quality left: {rows.quality:.4f}.",
        *(f"{row.operator}: {row.protection}. {row.reason}" for row in rows.operators),
    ]
    try:
        write_whole(path, protections.toml(comments=comments).encode(), private=False)
    except OSError as error:
        raise RunError(f"Protections cannot be written to {path} ({error.strerror}). Name another file.") from error


def _write_page(directory: Path) -> None:
    try:
        page = plan_page(directory, read_manifest(directory)).encode()
        write_whole(directory / "report.html", page, private=False)
    except OSError as error:
        raise RunError(f"The page cannot be written to {directory} ({error.strerror}). Name another folder.") from error


class _Observed:
    """A progress bar on standard error, with the time that is left, and sentences above it."""

    def __init__(self, stack: ExitStack, *, quiet: bool) -> None:
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self._quiet = quiet
        self._bar = stack.enter_context(Progress(*columns, console=PROGRESS, disable=quiet, transient=True))
        self._task = self._bar.add_task("evidence", total=None)

    def told(self, sentence: str) -> None:
        if not self._quiet:
            self._bar.console.print(sentence, markup=False)

    def __call__(self, progress: CampaignProgress) -> None:
        self._bar.update(self._task, description=progress.doing, completed=progress.done, total=progress.total)


def _lost(row: OperatorRow) -> str:
    if row.stale_s:
        return f"{row.stale_s:g} s of state"
    if row.forgets and not row.lost_s:
        return "all"
    return f"{row.lost_s:g} s" + (" and state" if row.forgets else "")


def _show(name: str, rows: PlanRows, directory: Path) -> None:
    print_table(
        f"{name}: quality {rows.quality:.4f} for {rows.cost:.3g} cores"
        + ("" if rows.cost_of_losing_nothing is None else f"; to lose nothing {rows.cost_of_losing_nothing:.3g}")
        + f"; the best for every operator {rows.cost_of_everything:.3g}",
        ["operator", "protection", "cores", "memory", "written", "lost", "back", "quality"],
        [
            [
                row.operator,
                row.protection,
                f"{row.cost:.2g}",
                size(row.memory_bytes),
                f"{size(row.written_bytes_per_s)}/s",
                _lost(row),
                f"{row.back_s:.3g} s",
                f"{row.quality:.3f}",
            ]
            for row in rows.operators
        ],
        words=("protection",),
    )
    for row in rows.operators:
        say(f"{row.operator}: {row.reason}")
    say(rows.next)
    if rows.judged:
        print_table(
            "two hours with crashes at random, by the model",
            ["plan", "cores", "available", "tainted", "lost per hour", "delayed per hour", "holds"],
            [
                [
                    row.plan,
                    f"{row.cost:.2g}",
                    f"{row.availability:.5f}",
                    f"{row.tainted_share:.3%}",
                    f"{row.lost_per_hour:,.0f}",
                    f"{row.delayed_per_hour:,.0f}",
                    {None: "", True: "yes", False: "no"}[row.holds],
                ]
                for row in rows.judged
            ],
        )
    for said, proof in (("under faults it was not made from", rows.proof), ("under real kills", rows.killed)):
        if not proof:
            continue
        print_table(
            said,
            ["plan", "cores", "foretold", "measured", "95 % interval", "faults", "stands"],
            [
                [
                    row.plan,
                    f"{row.cost:.2g}",
                    f"{row.foretold:.4f}",
                    f"{row.measured:.4f}",
                    f"{row.low:.4f} to {row.high:.4f}",
                    row.faults,
                    "yes" if row.stands else "no",
                ]
                for row in proof
            ],
        )
    PEOPLE.print(
        f"{rows.seconds:.1f} s. Evidence, plan and report.html are in {directory}; --evidence uses it again.",
        markup=False,
        soft_wrap=True,
    )
