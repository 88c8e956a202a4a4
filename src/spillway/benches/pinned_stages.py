"""What a stage of many tasks costs Spark when the tasks have nothing to do, and what naming a host for each adds.

A shard is a task, so this is what a batch costs whatever it does. The driver and the one executor are this process's
Java: in a cluster the tasks themselves are begun by many, and what is left to the driver is less than this.
"""

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

from spillway.benches.bench import Notes, Tell
from spillway.benches.simulated_hosts import timed
from spillway.records.bench import BenchRecords
from spillway.spark import session
from spillway.spark.hosts import hosts_seen
from spillway.spark.pinning import Pins

FREE, PINNED = "free", "pinned"
MEASURES = ("free_s", "pinned_s", "naming_s")


def measure_stages(sizes: Sequence[int], *, repetitions: int, notes: Notes, tell: Tell) -> dict[str, Any]:
    """Stages of so many tasks each, free and pinned in turn; returns what else the figures depend on."""
    tell("Starting Spark.")
    spark = session()
    (host,) = hosts_seen(spark.sparkContext)
    # The first ones, which compile and start what later ones find, are not noted.
    for turn in range(-1, repetitions):
        for size in sizes:
            frame = spark.range(0, size, 1, size)
            pins = Pins(spark)  # which knows nothing yet, as after a change of owners
            named, pin_s = timed(partial(pins.pinned, frame, [host] * size))
            stages = {FREE: frame, PINNED: named}
            taken_s = {name: timed(_begin(stages[name]))[1] for name in (stages if turn % 2 else reversed(stages))}
            if turn >= 0:
                notes.add(str(size), "naming_s", pin_s, turn=turn)
                for name, stage_s in taken_s.items():
                    notes.add(str(size), f"{name}_s", stage_s, turn=turn)
        tell(f"stages, repetition {turn + 1} of {repetitions}" if turn >= 0 else "stages, to warm up")
    return {"master": spark.sparkContext.master}


def summary(records: BenchRecords) -> dict[str, Any]:
    """By the number of tasks: seconds of a stage, free and pinned, and of naming hosts after a change; and all of them
    extrapolated to as many tasks as the cluster has shards.

    Beginning a task and naming its host cost the same for each. But every task is sent the hosts of all and reads them
    before it begins (Spark's figure for that is executorDeserializeTime): what pinning adds to one task grows in
    proportion to their number, and is work of the host it runs on. So a line is laid through the smallest and the
    largest stage.
    """
    found = {
        measure: {int(size): median(records.values(size, measure)) for size in records.subjects(measure)}
        for measure in MEASURES
    }
    added_s = {size: (found["pinned_s"][size] - free_s) / size for size, free_s in found["free_s"].items()}
    smallest, largest = min(added_s), max(added_s)
    per_host = records.settings["shards_per_host"]
    shards = records.settings["simulate"] * per_host
    rise_s = (added_s[largest] - added_s[smallest]) / max(largest - smallest, 1)
    extrapolated = {
        "tasks": shards,
        "begin_s": found["free_s"][largest] / largest * shards,
        "host_s": max(added_s[largest] + rise_s * (shards - largest), 0.0) * per_host,
        "naming_s": found["naming_s"][largest] / largest * shards,
    }
    return {measure: {str(size): s for size, s in sizes.items()} for measure, sizes in found.items()} | {
        "extrapolated": extrapolated
    }


def _begin(frame: Any) -> Any:
    """Runs all tasks of a frame, and has nothing converted or sent back."""
    return lambda: frame._jdf.queryExecution().toRdd().count()
