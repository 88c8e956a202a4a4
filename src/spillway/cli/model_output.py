"""What the commands of ``spillway model`` have in common: processes, progress, run directory, tables."""

import argparse
from collections.abc import Callable
from pathlib import Path

from spillway.cli.directories import run_directory
from spillway.cli.numbers import seed
from spillway.cli.output import PEOPLE, PROGRESS, print_table
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.model.simulating import Progress, Result, Setting
from spillway.records.campaign import read_manifest
from spillway.records.model import ModelRecords
from spillway.report.model_page import model_page
from spillway.report.model_zeros import is_zero, zero_sentence


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, help="how many simulate; 1 for this one (default: one per core)")
    parser.add_argument("--master", help="simulate as Spark tasks there instead, such as local[2,4]")
    parser.add_argument("--seed", type=seed, default=1, help="the same gives the same results (default: 1)")
    parser.add_argument("--directory", type=Path, help="where records and report.html go (default: a new one)")


def told(name: str) -> Progress:
    """Progress of an experiment on standard error."""

    def tell(done: int, of: int, setting: Setting) -> None:
        what = f"{setting.configuration}{f', {setting.crashed} crashes' if setting.crashed else ''}"
        PROGRESS.print(f"{name} {done + 1}/{of}: {what}, {setting.flow.tuples_per_s:,.6g} tuples/s")

    return tell


def save(records: ModelRecords, directory: Path | None) -> Path:
    """Write the run directory and its page; returns where."""
    path = run_directory(directory, f"model-{records.modelled}")
    records.write(path)
    try:
        write_whole(path / "report.html", model_page(path, read_manifest(path)).encode())
    except OSError as error:
        raise RunError(f"The page cannot be written to {path} ({error.strerror}). Name another --directory.") from error
    return path


def print_points(result: Result) -> None:
    """One row per point: the parameters that vary, and what matters most."""
    parameters: dict[str, list[str]] = {
        "tuples/s": [f"{point.setting.flow.tuples_per_s:,.6g}" for point in result.points],
        "crash every": [_every(point.setting.faults.crash_rate) for point in result.points],
        "recovery": [f"{point.setting.faults.recovery_s:g} s" for point in result.points],
        "corrupts every": [_every(point.setting.faults.corruption_rate) for point in result.points],
        "crashed": [point.setting.crashed for point in result.points],
    }
    hurt = [
        at for at, point in enumerate(result.points) if point.setting.faults.crashes or point.setting.faults.corrupts
    ]
    varied = {name: values for name, values in parameters.items() if len({values[at] for at in hurt}) > 1}
    means = [{name: estimate.mean for name, estimate in point.measures.items()} for point in result.points]
    shown = {name: column for name, column in _COLUMNS.items() if not is_zero(means, name)}
    rows = [
        [
            point.setting.configuration,
            *(values[at] for values in varied.values()),
            *(written(means[at][name]) for name, (_, written) in shown.items()),
            point.copies,
        ]
        for at, point in enumerate(result.points)
    ]
    print_table(
        f"{result.experiment}: means of {min(point.replications for point in result.points):,} runs or more",
        ["protection", *varied, *(title for title, _ in shown.values()), "copies"],
        rows,
    )
    sentence = zero_sentence(means, list(_COLUMNS))
    if sentence:
        PEOPLE.print(sentence, soft_wrap=True)


def short(value: float) -> str:
    """A count for people.

    >>> short(0.0), short(12.34), short(7733.4), short(2.5e7), short(4.2e9)
    ('0', '12.3', '7,733', '25.0 M', '4.2 G')
    """
    if value == 0:
        return "0"
    if abs(value) < 100:
        return f"{value:.1f}"
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return f"{value / size:,.1f}{unit}"
    return f"{value:,.0f}"


_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "availability": ("available", "{:.5f}".format),
    "tainted": ("tainted", short),
    "tainted_share": ("share", "{:.3%}".format),
    "within_bound": ("within bound", short),
    "lost": ("lost", short),
    "delayed": ("delayed", short),
    "processor_s": ("cores", "{:.3g}".format),
}
"""What matters most, in order: the measure, its title, how it is written. What is zero everywhere is left out."""


def _every(rate_per_s: float) -> str:
    return f"{1 / rate_per_s / 60:,.0f} min" if rate_per_s else "never"
