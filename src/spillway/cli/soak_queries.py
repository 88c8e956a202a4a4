"""``spillway soak queries`` and ``streams``: random aggregations, as sw.protect runs them and by Spark alone."""

import argparse

from spillway.cli.soaking import SEED, one_by_one, tell
from spillway.soak.queries import random_query
from spillway.soak.query_world import QueryTotals, QueryWorld
from spillway.soak.stream_world import StreamTotals, StreamWorld
from spillway.soak.streams import random_stream


def queries(options: argparse.Namespace) -> int:
    """Batches that are there: all shapes of queries, quickly."""
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


def streams(options: argparse.Namespace) -> int:
    """Streams from files: watermarks, late rows, restarts, memory that is lost."""
    totals = StreamTotals()
    elapsed_s = one_by_one(
        options, totals, StreamWorld(), random_stream, kept="the same batches", broken="other batches"
    )
    return tell(
        options,
        totals,
        elapsed_s,
        f"{totals.histories:,} streams that put out {totals.rows:,} rows, of which {totals.lost:,} lost all memory",
        kept="every batch was Spark's",
        broken="gave something else",
        tables={"streams": totals.modes},
        replay=f"spillway soak streams --seed {SEED} --schedules 1",
    )
