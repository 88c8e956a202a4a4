"""``spillway soak --histories`` and ``--hosts``: who owns a shard, as a machine alone and on hosts that are killed."""

import argparse
from functools import partial

from spillway.cli.soaking import SEED, on_pool, one_by_one, tell
from spillway.errors import SetupError
from spillway.soak.histories import Histories, live_some

_PER_TASK = 1_000


def pretended(options: argparse.Namespace) -> int:
    """The machine alone, in a world of pretence."""
    totals = Histories()
    elapsed_s = on_pool(options, totals, live_some, count=options.histories, per_task=_PER_TASK)
    return tell(
        options,
        totals,
        elapsed_s,
        f"{totals.histories:,} histories with {totals.moves:,} moves, {totals.recoveries:,} recoveries and "
        f"{totals.woken:,} tasks that woke too late",
        kept="every rule was kept",
        broken="broke a rule",
        replay=f"spillway soak --seed {SEED} --histories 1",
    )


def real(options: argparse.Namespace) -> int:
    """A cluster of hosts on this machine, whose processes are killed."""
    from spillway.soak.host_histories import HOSTS_MIN, history
    from spillway.soak.host_totals import HostTotals
    from spillway.soak.host_world import World

    if options.hosts < HOSTS_MIN:
        raise SetupError(f"Hosts are killed two at a time: --hosts wants {HOSTS_MIN} or more; got {options.hosts}.")
    totals = HostTotals()
    elapsed_s = one_by_one(
        options, totals, World(options.hosts), partial(history, hosts=options.hosts), kept="kept", broken="broken"
    )
    return tell(
        options,
        totals,
        elapsed_s,
        f"{totals.histories:,} histories of {options.hosts} hosts with {totals.moves:,} moves, "
        f"{totals.handed_over:,} of them handed over, and {totals.recoveries:,} recoveries",
        kept="every promise was kept",
        broken="broke a promise",
        tables={"faults": totals.faults},
    )
