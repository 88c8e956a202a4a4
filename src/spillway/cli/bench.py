"""``spillway bench NAME``: figures, each a ratio within one run, written to records and printed from them.

``spillway bench show DIRECTORY`` prints those of an earlier one again. With ``--against`` either stands beside another.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import Field, asdict
from functools import partial
from pathlib import Path
from typing import Any

from spillway.benches.af import Af
from spillway.benches.batch import Batch
from spillway.benches.bench import Bench, options_of, run_bench
from spillway.benches.exact import Exact
from spillway.benches.figures import compare, figures
from spillway.benches.hosts import Hosts
from spillway.benches.kafka import KafkaBench
from spillway.benches.model import Model
from spillway.benches.protect import Protect
from spillway.benches.receiver import ReceiverBench
from spillway.benches.replicas import Replicas
from spillway.benches.state import State
from spillway.benches.wordcount import Wordcount
from spillway.cli.bench_tables import told, told_comparison
from spillway.cli.directories import run_directory
from spillway.cli.manners import add_manners
from spillway.cli.numbers import whole
from spillway.cli.output import PEOPLE, PROGRESS, markdown, print_json, tell
from spillway.clock import SystemClock
from spillway.errors import RunError
from spillway.model import Faults, Technique, build
from spillway.model.stream_net import StreamNet
from spillway.papers.af.workloads import MODES, WORKLOADS
from spillway.papers.dissertation.bargain import CHECKPOINT, HIGH_AVAILABILITY, REPLICATION, bargain
from spillway.records.bench import BenchRecords, make_directory, read_bench

BENCHES: dict[str, type[Bench]] = {
    bench.NAME: bench
    for bench in (Af, ReceiverBench, KafkaBench, Wordcount, Exact, Batch, State, Model, Hosts, Replicas, Protect)
}

SHOW = "the figures of an earlier bench, from its records"


def _bargain(technique: Technique) -> StreamNet:
    """Bargain Discovery at 450 tuples a second, crashes every 90 minutes."""
    return build(bargain(tuples_per_s=450), technique, Faults(crash_rate=1.85e-4, recovery_s=3.5))


# What a paper describes is handed to the benches that measure on it.
_GIVEN: Mapping[str, Mapping[str, Any]] = {
    Af.NAME: {"workloads": WORKLOADS, "modes": MODES},
    Model.NAME: {
        "streams": {
            "checkpoint": partial(_bargain, CHECKPOINT),
            "high_availability": partial(_bargain, HIGH_AVAILABILITY),
            "replication": partial(_bargain, REPLICATION),
        }
    },
}


def add_options(parser: argparse.ArgumentParser) -> None:
    names = parser.add_subparsers(metavar="NAME", required=True)
    for name, bench in BENCHES.items():
        command = _add_command(names, name, bench.MEANING)
        for option in options_of(bench):
            _add_option(command, option)
        command.add_argument("--directory", type=Path, help="where its records go (default: a new one in runs/)")
        command.set_defaults(records=partial(_run, bench), markdown=False)
    command = _add_command(names, "show", SHOW)
    command.add_argument("directory", type=Path, metavar="DIRECTORY", help="where the bench left its records")
    command.add_argument("--markdown", action="store_true", help="as a document has it, with the command")
    command.set_defaults(records=lambda options: read_bench(options.directory))


def main(options: argparse.Namespace) -> int:
    records: BenchRecords = options.records(options)
    summary = _summary(records, options.directory)
    comparison = compare(records, read_bench(options.against)) if options.against else None
    if options.json:
        print_json(
            {
                "bench": records.bench,
                "directory": str(options.directory),
                **summary,
                "settings": records.settings,
                "about": records.about,
                "seconds": records.seconds,
                "machine": records.machine,
                "figures": [asdict(figure) for figure in figures(records)],
                **({} if comparison is None else {"against": asdict(comparison)}),
            }
        )
        return 0
    items = [*told(records.bench, summary)]
    if comparison is not None:
        items += told_comparison(comparison, options.against)
    if options.markdown:
        print(f"`./run spillway {_command(records)}`:\n\n{markdown(items)}")
        return 0
    tell(items)
    PEOPLE.print(
        f"{records.seconds:.0f} s. Samples are in {options.directory}; spillway bench show {options.directory} tells "
        f"this again.",
        soft_wrap=True,
    )
    return 0


def _command(records: BenchRecords) -> str:
    """The words that ran a bench: what was not said is as it always is."""
    words = ["bench", records.bench]
    for option in options_of(BENCHES[records.bench]):
        value = records.settings.get(option.name, option.default)
        several = isinstance(option.default, tuple)
        if (tuple(value) if several else value) != option.default:
            words += [f"--{option.name.replace('_', '-')}", ",".join(map(str, value)) if several else str(value)]
    return " ".join(words)


def _run(bench: type[Bench], options: argparse.Namespace) -> BenchRecords:
    """Run a bench, write its records, and read them back: what is shown is what is kept."""
    # Whatever is wrong with what was given is said before the bench, not after.
    if options.against and (found := read_bench(options.against).bench) != bench.NAME:
        raise RunError(f"--against {options.against} holds a bench {found!r}; one of {bench.NAME!r} is wanted.")
    given = {option.name: getattr(options, option.name) for option in options_of(bench)}
    made = bench(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()},
        **_GIVEN.get(bench.NAME, {}),
    )
    options.directory = run_directory(options.directory, f"bench-{bench.NAME}")
    make_directory(options.directory)
    run_bench(made, clock=SystemClock(), tell=PROGRESS.print).write(options.directory)
    return read_bench(options.directory)


def _summary(records: BenchRecords, directory: Path) -> dict[str, Any]:
    if records.bench not in BENCHES:
        raise RunError(f"{directory} holds a bench {records.bench!r}; there are {', '.join(BENCHES)}.")
    try:
        return BENCHES[records.bench].summary(records)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        # Another version may have measured other things; its samples are there all the same.
        raise RunError(
            f"{directory} lacks what figures of bench {records.bench!r} are made of: {type(error).__name__} {error}."
        ) from error


def _add_command(names: Any, name: str, meaning: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = names.add_parser(
        name, help=meaning, description=meaning[0].upper() + meaning[1:] + "."
    )
    add_manners(command)
    command.add_argument(
        "--against", type=Path, metavar="DIRECTORY", help="also the ratios of medians to an earlier one's"
    )
    return command


class _Words(argparse.Action):
    """Several values, with commas between them or one option each."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        so_far = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [*(so_far if isinstance(so_far, list) else []), *values])


def _add_option(parser: argparse.ArgumentParser, option: Field[Any]) -> None:
    name, default, among = f"--{option.name.replace('_', '-')}", option.default, option.metadata["among"]
    meaning = option.metadata["meaning"] + (f": {', '.join(among)}" if among else "")
    if isinstance(default, tuple):
        several = _several(whole if default and isinstance(default[0], int) else str)
        told = f"{meaning} (default: {'all' if default == among else _listed(default)})" if default else meaning
        parser.add_argument(name, type=several, action=_Words, default=default, metavar="A,B,…", help=told)
        return
    kind: Callable[[str], Any] = whole if isinstance(default, int) else type(default)
    metavar = {int: "N", float: "NUMBER", str: "WORD"}[type(default)]
    told = f"{meaning} (default: {_listed((default,))})" if default else meaning
    parser.add_argument(name, type=kind, default=default, metavar=metavar, help=told)


def _several(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        return [kind(word) for word in text.split(",") if word]

    parse.__name__ = "list"  # what argparse calls it when a word makes no sense
    return parse


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(value if isinstance(value, str) else f"{value:,.12g}" for value in values)
