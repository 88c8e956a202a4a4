"""The figures of a run in Prometheus' text format, from its records.

Names begin with ``spillway_``; every one has the label ``run``, the name of the graph, or of the job. Counters count
from the first batch that the records hold when they are first looked at, and never go down while the server lives,
though the oldest records go: of each batch its tuples and backups are added once. There is one series per operator and,
for divergence and threshold, one per shard, up to ``SHARDS_MAX``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from spillway.records.reading import Life
from spillway.records.run_records import RunRecords
from spillway.records.times import Work
from spillway.report.happened_part import happenings
from spillway.report.run_state import State, state_of
from spillway.watch.looking import Seen

SHARDS_MAX = 1_000

PACKAGE = "prometheus_client"

Family = Any  # of prometheus_client, which need not be there


def is_there() -> bool:
    """Whether the package is installed that writes them."""
    return find_spec(PACKAGE) is not None


class Totals:
    """Sums over batches that only grow, of one run."""

    def __init__(self) -> None:
        self._counted = -1  # batches up to this one
        self._read = -1
        self.by_operator: dict[str, Counter[str]] = {}
        self.read: Counter[str] = Counter()

    def add(self, records: RunRecords) -> None:
        """Add what is new in the records."""
        progress, batches = records.progress, records.batches
        fresh = progress.numbers("batch") > self._counted
        for place, name in enumerate(progress.operators):
            own, total = fresh & (progress.operator == place), self.by_operator.setdefault(name, Counter())
            for column in _SUMMED:
                total[column] += int(progress.of(column)[own].sum())
        self._counted = max(self._counted, int(progress.numbers("batch").max(initial=-1.0)))
        later = batches["batch"] > self._read
        self.read["batches"] += int(later.sum())
        self.read["tuples"] += int(batches["tuples"][later].sum())
        self._read = max(self._read, int(batches["batch"].max(initial=-1.0)))


_SUMMED = ("tuples", "backup", "backup_bytes", "item_bytes", "recovered", "lost_chunks", "late", "ahead")


class Metrics:
    """Writes what was seen; ``now_s`` is asked for each time."""

    def __init__(self, now_s: Any) -> None:
        self._now_s = now_s
        self._totals: dict[Path, Totals] = {}

    def text(self, seen: Seen) -> tuple[str, bytes]:
        """The content type, and the figures."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(self._families(seen)))
        return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry)

    def _families(self, seen: Seen) -> Iterator[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now_s = float(self._now_s())
        found: dict[str, Family] = {}

        def put(name: str, told: str, value: float, **labels: str) -> None:
            """Add a value: a counter if it is a total."""
            if name not in found:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                found[name] = kind(name, told, labels=list(labels))
            found[name].add_metric(list(labels.values()), value)

        for records in seen.records:
            run = str(records.manifest.get("graph", records.path.name)) if len(seen.records) == 1 else records.path.name
            totals = self._totals.setdefault(records.path, Totals())
            totals.add(records)
            self._of_run(put, records, totals, run=run, now_s=now_s)
            self._of_operators(put, records, totals, run=run)
            self._of_shards(put, records, run=run)
        yield from found.values()

    def _of_run(self, put: Any, records: RunRecords, totals: Totals, *, run: str, now_s: float) -> None:
        told = state_of(records, now_s=now_s)
        put("spillway_up", "Whether the run goes on.", float(records.life is Life.RUNNING), run=run)
        for state in State:
            put(
                "spillway_state",
                "One for the state the run is in.",
                float(told.state is state),
                run=run,
                state=str(state),
            )
        put("spillway_batches_total", "Batches done.", totals.read["batches"], run=run)
        put("spillway_read_tuples_total", "Tuples that sources gave.", totals.read["tuples"], run=run)
        put("spillway_batch", "The number of the last batch.", records.last_batch, run=run)
        done_s = records.batches["time_s"]
        if len(done_s):
            put("spillway_last_batch_timestamp_seconds", "When the last batch was done.", float(done_s.max()), run=run)
        if len(records.times["batch"]):
            for work in Work:
                seconds = float(records.times[f"{work}_s"][-1])
                put(
                    "spillway_batch_seconds", "Where the time of the last batch went.", seconds, run=run, part=str(work)
                )
        counted = Counter(one.kind for one in happenings(records))
        for kind, number in counted.items():
            put("spillway_happenings", "What happened of late, by kind.", number, run=run, kind=str(kind))
        lost = int(records.manifest.get("records_lost", 0))
        put("spillway_records_lost_total", "Records that the disk did not take.", lost, run=run)
        put("spillway_rewinds_total", "Times the job was sent back.", len(records.rewinds), run=run)
        put("spillway_moves_total", "Shards that have a new host.", len(records.moves), run=run)

    def _of_operators(self, put: Any, records: RunRecords, totals: Totals, *, run: str) -> None:
        for one in records.progress.summaries():
            total, labels = totals.by_operator[one.operator], {"run": run, "operator": one.operator}
            put("spillway_tuples_total", "Tuples applied.", total["tuples"], **labels)
            put("spillway_backups_total", "Backups written, of shards.", total["backup"], **labels)
            put("spillway_backup_bytes_total", "Bytes of backups.", total["backup_bytes"], **labels)
            put("spillway_item_bytes_total", "Bytes of tuples made durable.", total["item_bytes"], **labels)
            put("spillway_recoveries_total", "Shards that recovered.", total["recovered"], **labels)
            put("spillway_lost_chunks_total", "Chunks of backups that were damaged.", total["lost_chunks"], **labels)
            put("spillway_late_tuples_total", "Tuples that came too late.", total["late"], **labels)
            put("spillway_ahead_tuples_total", "Tuples too far ahead of time.", total["ahead"], **labels)
            put("spillway_failures", "Losses of memory so far, over all shards.", one.failures, **labels)
            put("spillway_state_bytes", "Bytes of state in memory.", one.state_bytes, **labels)
            put(
                "spillway_divergence_of_threshold",
                "The largest share of the divergence allowed that any shard uses.",
                one.divergence_of_threshold,
                **labels,
            )

    def _of_shards(self, put: Any, records: RunRecords, *, run: str) -> None:
        progress = records.progress
        newest = [progress.newest(place) for place in range(len(progress.operators))]
        for row in progress.rows(np.concatenate([np.zeros(0, np.int64), *newest])[:SHARDS_MAX]):
            labels = {"run": run, "operator": row.operator, "shard": str(row.shard), "host": row.host}
            put(
                "spillway_shard_divergence",
                "Distance to the last backup.",
                0.0 if row.backup else row.divergence,
                **labels,
            )
            put("spillway_shard_threshold", "The distance allowed; 0 if none is set.", row.threshold, **labels)


class _Collector:
    """What is there, once."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Family]:
        return self._families

    def describe(self) -> Iterable[Family]:
        return ()
