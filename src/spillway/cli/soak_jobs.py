"""``spillway soak jobs``: drivers of jobs, each a process of its own, killed at random; the output must not show it."""

import argparse
from functools import partial

from spillway.cli.soaking import one_by_one, tell
from spillway.errors import SetupError
from spillway.soak.kill_graph import PROTECTED
from spillway.soak.kill_world import KillTotals, KillWorld
from spillway.soak.kills import history


def main(options: argparse.Namespace) -> int:
    if options.protect not in PROTECTED:
        raise SetupError(f"Jobs are killed under {', '.join(PROTECTED)}; --protect was {options.protect!r}.")
    totals = KillTotals()
    elapsed_s = one_by_one(
        options,
        totals,
        KillWorld(),
        partial(history, protection=options.protect),
        kept="the same output",
        broken="another output",
    )
    return tell(
        options,
        totals,
        elapsed_s,
        f"{totals.histories:,} histories of jobs under {options.protect} with {totals.struck:,} kills and "
        f"{totals.recovered:,} recoveries of a shard",
        kept="the output was the same each time",
        broken="put out something else",
        tables={"kills": totals.kills},
        also={"protect": options.protect},
    )
