"""A driver on a cluster, which does what a test asks it line by line: ``python -m tests.spark.cluster_driver MASTER``.

It is a process of its own because a process has one Spark, and other tests have theirs.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tests.spark_archive import java_options

import spillway as sw
from spillway.engine.job_logs import LogStep
from spillway.soak.host_graph import outputs
from spillway.soak.host_holds import HOLDS, Holding
from spillway.soak.kill_graph import PROTECTED, SCHEMA, kill_graph, tuples, undisturbed, written
from spillway.soak.kill_world import compared
from spillway.soak.kills import Stop, Stops
from spillway.spark import session
from spillway.spark.hosts import hosts_seen
from spillway.spark.pinning import Pins
from spillway.spark.probing import RunError, check_seen, probe
from spillway.spark.settings import query_settings, wait_for_hosts

STOP: dict[str, Any] = {"step": LogStep.APPENDED, "place": "echo.out", "batch": 2}
"""Where the middle one of the jobs waits."""
REPLICAS = {"first-0": "counts", "first-1": "counts", "second-0": "levels", "second-1": "levels"}
SHARDS = 3
ROWS = "shard int, at string"
NUMBERS = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("number", pa.int64())])
WAIT_S_MAX = 60.0


class Driver:
    """The test's end."""

    def __init__(self, master: str, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.spark.cluster_driver", master]
        self.folder = folder
        self._log = (folder / "driver.log").open("w+")
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, what: str, **options: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"what": what, **options}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            self._log.seek(0)
            raise AssertionError(f"the driver has ended: {self._log.read()[-3000:]}")
        return json.loads(answer)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


class Asked:
    """The driver's end: a method for each thing that can be asked."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pins = Pins(spark)
        self._jobs: sw.JobsRun | None = None

    def hosts(self, count: int) -> list[str]:
        """Wait until there are so many, then tell which."""
        until_s = time.monotonic() + WAIT_S_MAX
        while len(hosts_seen(self._spark.sparkContext)) != count and time.monotonic() < until_s:
            time.sleep(0.02)
        return sorted(hosts_seen(self._spark.sparkContext))

    def probe(self, **options: Any) -> dict[str, Any]:
        seen = probe(self._spark, **options)
        try:
            check_seen(seen)
            refused = ""
        except RunError as error:
            refused = str(error)
        memories = {host: answer.memory_id for host, answer in seen.items()}
        return {"memories": memories, "troubles": {h: s.trouble for h, s in seen.items()}, "refused": refused}

    def stream(self, batches: int, places: list[list[str | None]], wait_s: float = 20.0) -> list[dict[str, str]]:
        """Run a query of two stages after the first; for each batch, where each task of them ran."""
        wait_for_hosts(self._spark, seconds=wait_s)
        seen: list[dict[str, str]] = []

        def write(frame: DataFrame, batch: int) -> None:
            frame = frame.select((sql.col("value") % SHARDS).cast("int").alias("shard"), sql.lit("").alias("at"))
            for stage, wanted in enumerate(places):
                arriving = frame.repartitionById(SHARDS, sql.col("shard"))
                frame = self._pins.pinned(arriving, wanted).mapInArrow(located(stage), ROWS)
            if len(seen) < batches:
                seen.append(dict(row.at.split("@") for row in frame.collect() if row.at))

        reading = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 30).load()
        with tempfile.TemporaryDirectory() as checkpoint:
            with query_settings(self._spark, local_checkpoint=True):
                query = reading.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
            while len(seen) < batches and query.isActive:
                query.awaitTermination(0.02)  # type: ignore[arg-type]
            query.stop()
        return seen

    def speculates(self, folder: str) -> str:
        """What a run says that would begin in a session whose tasks may be run twice at once."""
        graph = sw.Graph("speculating")
        numbers = graph.source("numbers", sw.Generator(make=_numbers, schema=NUMBERS, pieces=1))
        count = sw.operators.Count("count", key="number", protect=sw.Nothing())
        graph.sink("out", graph.add(count, numbers), sw.Memory())
        settings = self._spark.sparkContext._jsc.sc().conf()  # type: ignore[attr-defined]
        settings.set("spark.speculation", "true")
        try:
            sw.run(graph, self._spark, checkpoint=folder).stop()
        except RunError as error:
            return str(error)
        finally:
            settings.remove("spark.speculation")
        return ""

    def hands_over(self, folder: str, tls: dict[str, str]) -> dict[str, Any]:
        """Move the one shard of a graph to another host; what was handed over, or why the run was refused."""
        graph = sw.Graph("handing", shards=1)
        numbers = graph.source(
            "numbers", sw.Generator(make=_numbers, schema=NUMBERS, pieces=100_000, pieces_per_batch=1)
        )
        count = sw.operators.Count("count", key="number", protect=sw.Nothing())
        graph.sink("out", graph.add(count, numbers), sw.Discard())
        trigger = {"processingTime": "0 seconds"}
        try:
            with sw.run(graph, self._spark, checkpoint=folder, trigger=trigger, tls=sw.TLS(**tls)) as run:
                until_s = time.monotonic() + WAIT_S_MAX
                while not (moved := [move for move in run.moves() if move.handed_over]) and not run.troubles():
                    if run.batches == 1:
                        here = run.owner("count", 0)
                        run.move("count", 0, next(host for host in self.hosts(3) if host != here))
                    assert time.monotonic() < until_s and not run.wait(0.02)
                return {"bytes": [move.bytes for move in moved], "troubles": run.troubles()}
        except RunError as error:
            return {"refused": str(error)}

    def begin_jobs(self, folder: str) -> None:
        """Start three jobs that are saved together; the middle one waits in a batch until it may go on."""
        place = Path(folder)
        holding = Holding(folder=place / HOLDS, holds=())
        holding.folder.mkdir(parents=True)
        stops = Stops(holding, [Stop(**STOP)])
        self._jobs = sw.run_jobs(
            kill_graph(place / "out", PROTECTED["coordinated"]),
            self._spark,
            backups=place / "backups",
            checkpoint=place / "checkpoint",
            observe_logs=stops.in_log,
        )

    def end_jobs(self, folder: str) -> dict[str, Any]:
        """Wait for the jobs; who went back, and how what they put out differs from an undisturbed run."""
        assert self._jobs is not None
        with self._jobs as run:
            run.wait()
            rewound = [job for job, rewinds in run.rewinds().items() if rewinds]
            restarted = [restart.told() for restart in run.restarts()]
        wanted = undisturbed(Path(folder) / "undisturbed")
        differs = list(compared(written(Path(folder) / "out"), wanted))
        return {"rewound": rewound, "restarted": restarted, "differs": differs}

    def begin_groups(self, folder: str) -> None:
        """Start two groups, one reading from the other; both replicas of the first wait in a batch."""
        place = Path(folder)
        holding = Holding(folder=place / HOLDS, holds=())
        holding.folder.mkdir(parents=True)
        stops = Stops(holding, [Stop(step=LogStep.APPENDED, place="counts.out", batch=2)] * 2)
        self._jobs = sw.run_jobs(
            groups_graph(place / "out"),
            self._spark,
            backups=place / "backups",
            checkpoint=place / "checkpoint",
            observe_logs=stops.in_log,
        )

    def owners(self) -> dict[str, str]:
        """The host that each replica has its shard on; those that have begun a batch."""
        assert self._jobs is not None
        found = {}
        for name, operator in REPLICAS.items():
            run = self._jobs.job(name)
            host = "" if run is None else run.owner(operator, 0)
            found |= {name: host} if host else {}
        return found

    def end_groups(self, folder: str) -> dict[str, Any]:
        """Wait for the groups; what became of them, and whether what they put out is that of an undisturbed run."""
        assert self._jobs is not None
        place = Path(folder)
        with self._jobs as run:
            run.wait()
            moved = [name for name in REPLICAS if (job := run.job(name)) is not None and job.moves()]
            told = run.troubles()
        with sw.LocalRun(groups_graph(place / "one", grouped=False), backups=str(place / "backups-of-one")) as one:
            one.run()
        same = outputs(place / "out", ("levels",)) == outputs(place / "one", ("levels",))
        return {"moved": moved, "same": same, "told": told}

    def leaves_frames_alone(self) -> bool:
        frame = self._spark.range(0, 3, 1, 3)
        return self._pins.pinned(frame, [None] * 3) is frame

    def answers(self, places: list[str | None]) -> list[int]:
        """The rows of a frame that is pinned, which must be those it had."""
        wait_for_hosts(self._spark, seconds=0.1)
        frame = self._spark.range(0, 12, 1, len(places))
        return [row.id for row in self._pins.pinned(frame, places).collect()]


def groups_graph(out: Path, *, grouped: bool = True) -> sw.Graph:
    """A group that reads from a group; or as one job."""
    graph = sw.Graph("groups", shards=1)
    source = graph.source("tuples", sw.Generator(make=tuples, schema=SCHEMA, pieces=8))
    count = sw.operators.Count("counts", key="k", protect=sw.Exact())
    levels = sw.operators.Count("levels", key="count", count_as="times", protect=sw.Exact())
    graph.sink("out", graph.add(levels, graph.add(count, source)), sw.Parquet(str(out / "levels")))
    if grouped:
        graph.job("first", ["counts"], protect=sw.Group())
        graph.job("second", ["levels"], protect=sw.Group())
    return graph


def _numbers(piece: int) -> pa.RecordBatch:
    seqs = range(10 * piece, 10 * piece + 10)
    return pa.RecordBatch.from_pydict({"seq": seqs, "number": range(10)}, schema=NUMBERS)


def located(stage: int) -> Any:
    """A task that says where it runs, hands on what was said before, and gives every shard of the next stage a row."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        said = [at for batch in batches for at in batch.column("at").to_pylist() if at]
        context = TaskContext.get()
        assert context is not None
        # On a cluster of ours the memory root is named after the host.
        here = f"{stage}/{context.partitionId()}@{Path(os.environ['SPILLWAY_MEMORY']).name}"
        rows = [*said, here, *[""] * SHARDS]
        shards = pa.array([index % SHARDS for index in range(len(rows))], pa.int32())
        yield pa.RecordBatch.from_arrays([shards, pa.array(rows)], names=["shard", "at"])

    return task


def main(master: str) -> None:
    spark = session(
        master=master,
        spark__executor__memory="512m",
        # Executors live for seconds, and run no kernels: see tests/spark_archive.py.
        spark__executor__extraJavaOptions=f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {java_options()}",
        spark__python__daemon__module="pyspark.daemon",
    )
    asked = Asked(spark)
    for line in sys.stdin:
        options = json.loads(line)
        print(json.dumps(getattr(asked, options.pop("what"))(**options)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
