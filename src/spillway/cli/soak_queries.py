"""``spillway soak queries``: random aggregations, as sw.protect runs them and by Spark alone."""

import argparse

from spillway.cli.soaking import SEED, one_by_one, tell
from spillway.soak.queries import random_query
from spillway.soak.query_world import QueryTotals, QueryWorld


def main(options: argparse.Namespace) -> int:
    totals = QueryTotals()
    elapsed_s = one_by_one(options, totals, QueryWorld(), random_query, kept="the same results", broken="other results")
    return tell(
        options,
        totals,
        elapsed_s,
        f"{totals.histories:,} queries with {totals.groups:,} groups",
        kept="every result was Spark's",
        broken="gave something else",
        tables={"queries": totals.ends},
        replay=f"spillway soak queries --seed {SEED} --schedules 1",
    )
