"""``spillway verify IDEAL REAL``: which reliability levels an output has, and whether those asked for hold."""

import argparse
import re
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from spillway.cli.numbers import whole
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table
from spillway.errors import InputError
from spillway.graph.contracts import Contract
from spillway.score.reliability import WITNESSES, Level, Reliability
from spillway.score.reliability_contract import Kept, kept

_UNITS_S = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ideal", metavar="IDEAL", help="what should have come: a file or folder, of Parquet, Arrow, "
                        "CSV or JSON lines, such as the output of a run without failures")  # fmt: skip
    parser.add_argument("real", metavar="REAL", help="what came")
    parser.add_argument("--seq", default="seq", metavar="COLUMN", help="numbers tuples (default: seq)")
    parser.add_argument("--time", metavar="COLUMN", help="when tuples came: a timestamp, or seconds as a number")
    parser.add_argument("--stream", metavar="COLUMN", help="which stream a tuple belongs to, if there are several")
    parser.add_argument(
        "--payload", action="append", metavar="COLUMN", help="compare this column, and others named so (default: all)"
    )
    parser.add_argument("--lossless", action="store_true", help="ask for every tuple once, and no others (LOLE)")
    parser.add_argument("--delay", type=length, metavar="5s", help="ask for tuples no later than that (LIDE)")
    parser.add_argument("--order", choices=("stream", "between"), help="ask for order in (IASO) or between (IESO)")
    parser.add_argument("--limit", type=whole, default=WITNESSES, help="witnesses of each kind (default: 10)")
    parser.add_argument("--master", help="Spark's master (default: this machine's cores)")


def length(text: str) -> timedelta:
    """A length of time.

    >>> length("5s"), length("1.5"), length("200ms") == timedelta(milliseconds=200)
    (datetime.timedelta(seconds=5), datetime.timedelta(seconds=1, microseconds=500000), True)
    """
    match = _LENGTH.fullmatch(text.strip())
    if match is None or match[2] not in _UNITS_S or float(match[1]) * _UNITS_S[match[2]] > 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time; write it like 5s, 200ms or 2min")
    return timedelta(seconds=float(match[1]) * _UNITS_S[match[2]])


def main(options: argparse.Namespace) -> int:
    if options.time is None and (options.delay is not None or options.order):
        raise InputError("Delay and order can be told only from times: name their column with --time.")
    if options.order == "between" and options.stream is None:
        raise InputError("Order between streams is asked for: name the column that tells them apart with --stream.")
    asked = options.lossless or options.delay is not None or options.order
    contract = Contract(lossless=options.lossless, delay_max=options.delay, order=options.order) if asked else None
    # Spark is loaded only now, so that what was asked in vain is told at once.
    from spillway.spark import session, verify

    if not options.json:
        PROGRESS.print(f"Comparing {options.real} with {options.ideal} …", soft_wrap=True)
    found = verify(
        options.ideal,
        options.real,
        session(master=options.master) if options.master else None,
        seq=options.seq,
        time=options.time,
        stream=options.stream,
        payload=options.payload,
        witnesses=options.limit,
    )
    verdict = None if contract is None else kept(contract, found)
    if options.json:
        print_json(_told(found, contract, verdict))
    else:
        _show(found, contract, verdict)
    return 0 if verdict is None or verdict.held else 1


def _told(found: Reliability, contract: Contract | None, verdict: Kept | None) -> dict[str, Any]:
    counted = {name: value for name, value in asdict(found).items() if name != "witnesses"}
    levels = {
        level.name: {"holds": level.holds, "meaning": level.meaning, "tightest": level.tightest}
        for level in found.levels
    }
    told: dict[str, Any] = {
        "levels": levels,
        **counted,
        "lost_tuples": found.lost_tuples,
        "wrong_tuples": found.wrong_tuples,
        "delay_tightest_s": found.delay_tightest_s,
        "witnesses": [asdict(witness) for witness in found.witnesses],
    }
    if contract is not None and verdict is not None:
        told["asked"] = contract.describe()
        told["held"] = verdict.held
        told["broken"] = [*verdict.broken, *verdict.unknown]
    return told


def _show(found: Reliability, contract: Contract | None, verdict: Kept | None) -> None:
    print_table(
        f"{found.real_tuples:,} tuples came, {found.ideal_tuples:,} should have: {found.correct_tuples:,} are correct, "
        f"{found.lost_tuples:,} lost, {found.wrong_tuples:,} wrong",
        ["level", "means", "holds", "tightest"],
        [[level.name, level.meaning, _holds(level), level.tightest] for level in found.levels],
    )
    for level in found.levels:
        if level.holds is False:
            of_level = [witness for witness in found.witnesses if witness.kind in level.shown_by]
            # What was shown for a level before is not shown again.
            earlier = [each for each in found.levels[: found.levels.index(level)] if each.holds is False]
            kinds = {kind for each in earlier for kind in each.shown_by}
            fresh = [witness for witness in of_level if witness.kind not in kinds]
            if fresh:
                PEOPLE.print(f"[bold]{level.name} does not hold[/bold]:")
            for witness in fresh:
                PEOPLE.print(f"  {witness.said}", markup=False, soft_wrap=True)
    if contract is not None and verdict is not None:
        if verdict.held:
            PEOPLE.print(f"What was asked holds: {contract.describe()}.", soft_wrap=True)
        else:
            PEOPLE.print(f"What was asked does not hold: {contract.describe()}.", soft_wrap=True)
            for sentence in (*verdict.broken, *verdict.unknown):
                PEOPLE.print(f"  {sentence}", markup=False, soft_wrap=True)


def _holds(level: Level) -> str:
    return {True: "yes", False: "no", None: "unknown"}[level.holds]
