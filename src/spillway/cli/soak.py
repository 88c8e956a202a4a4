"""``spillway soak``: random fault schedules, as many as there is time for."""

import argparse
import time
from collections import Counter

from spillway.cli.output import PEOPLE, PROGRESS, print_json
from spillway.soak.schedules import run_schedule

_TELL_EVERY_S = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule; the others follow (default: 0)")
    parser.add_argument("--schedules", type=int, help="how many (default: as many as the minutes allow)")
    parser.add_argument("--minutes", type=float, default=5.0, help="stop after so long (default: 5)")


def main(options: argparse.Namespace) -> int:
    started_s = told_s = time.monotonic()
    protections: Counter[str] = Counter()
    losses = 0
    seed = options.seed
    while options.schedules is None or seed < options.seed + options.schedules:
        now_s = time.monotonic()
        if now_s - started_s > options.minutes * 60:
            break
        if now_s - told_s > _TELL_EVERY_S:
            told_s = now_s
            PROGRESS.print(f"{seed - options.seed:,} schedules in {now_s - started_s:.0f} s; the next seed is {seed}.")
        result = run_schedule(seed)
        protections[result.protection.partition("(")[0]] += 1
        losses += sum(result.losses)
        seed += 1
    elapsed_s = time.monotonic() - started_s
    count = seed - options.seed
    if options.json:
        print_json(
            {
                "schedules": count,
                "first_seed": options.seed,
                "losses": losses,
                "seconds": elapsed_s,
                "protections": dict(protections),
                "broken": 0,
            }
        )
        return 0
    PEOPLE.print(
        f"{count:,} schedules with {losses:,} losses of a shard's memory in {elapsed_s:.0f} s; every promise was kept "
        f"({', '.join(f'{name} {times}' for name, times in sorted(protections.items()))}).",
        soft_wrap=True,
    )
    return 0
