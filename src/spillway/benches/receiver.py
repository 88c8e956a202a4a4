"""Items a second through a receiver on one core, with none lost.

The receiver is ``spillway receive``, a process of its own, kept on one core. A sender and a reader that stands for
Spark share the others: the reader asks how far it may go, reads, and commits, so items are made durable only when it
falls behind by more than the bound allows. Measured is from the first item sent to the last one committed; every item
is counted and its number checked. Frames of Arrow and lines of JSON take turns.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.errors import RunError
from spillway.receiver import ItemReader, Sender
from spillway.receiver.options import TOKEN_VARIABLE
from spillway.records.bench import BenchRecords

FORMATS = ("arrow", "json")
_SCHEMA = "src:int64,dst:int64,bytes:int64"
_TOKEN = "bench receiver"
_ROWS = 10_000
_JSON_SHARE = 8  # lines of JSON are slower: fewer of them take as long
_WITHOUT_ITEMS_MAX_S = 30.0
_STOP_MAX_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverBench(Bench):
    """Subjects are the formats, and the receiver, which counts over all rounds."""

    NAME: ClassVar[str] = "receiver"
    MEANING: ClassVar[str] = "items a second through a receiver on one core, with none lost"

    tuples: int = option(4_000_000, "items in a round of Arrow frames; an eighth of them in one of JSON lines")
    rounds: int = option(3, "rounds of each format")
    items: float = option(2e5, "L of the receiver, in items")
    unacked: float = option(2e5, "Γ of the sender, in items")

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        sent = 0
        with tempfile.TemporaryDirectory(prefix="spillway-bench-") as folder, self._receiving(Path(folder)) as address:
            for turn in range(self.rounds):
                for name in FORMATS:
                    items = self.tuples if name == "arrow" else max(self.tuples // _JSON_SHARE, 1)
                    items_per_s = items / _round(address, name, items)
                    notes.add(name, "items_per_s", items_per_s, turn=turn)
                    sent += items
                    tell(f"{name}: {items_per_s / 1e6:.2f} M items/s")
            with ItemReader(address, _TOKEN) as reader:
                status = reader.status()
        counts = status["counts"]
        counted = {
            "sent": sent,
            "lost": sent - status["position"]["committed"],  # numbers have no gaps unless something failed
            "items_at_risk_allowed": status["items_at_risk_allowed"],
            **{name: counts[name] for name in ("saves", "saved_items", "taken")},
        }
        for name, count in counted.items():
            notes.add("receiver", name, count)
        return {"receiver_cores": 1}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        samples = {name: records.values(name, "items_per_s") for name in FORMATS}
        counted = ("sent", "lost", "items_at_risk_allowed", "saves", "saved_items", "taken")
        return {
            "items_per_s": {name: median(rates) for name, rates in samples.items()},
            "samples": samples,
            **{name: int(records.values("receiver", name)[0]) for name in counted},
            **records.about,
        }

    @contextmanager
    def _receiving(self, folder: Path) -> Iterator[str]:
        """A receiver on the first core of those we may use, while we keep to the others; where it listens."""
        command = [sys.executable, "-m", "spillway.cli.main", "receive", "--json", "--schema", _SCHEMA]
        command += ["--folder", str(folder), "--items", str(self.items), "--unacked", str(self.unacked)]
        allowed = os.sched_getaffinity(0)
        first, *others = sorted(allowed)
        try:
            os.sched_setaffinity(0, {first})  # what a process starts has its cores
            process = subprocess.Popen(
                [*command, "--port", "0", "--http-port", "-1"],
                stdout=subprocess.PIPE,
                env={**os.environ, TOKEN_VARIABLE: _TOKEN},
            )
            try:
                os.sched_setaffinity(0, others or {first})
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line:
                    raise RunError("bench receiver: the receiver did not start; see above.")
                yield f"127.0.0.1:{json.loads(line)['port']}"
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=_STOP_MAX_S)
        finally:
            os.sched_setaffinity(0, allowed)


def _round(address: str, name: str, items: int) -> float:
    """Send so many items and read all of them; returns the seconds it took, or raises if any was lost or doubled."""
    batches = [_batch(first, min(_ROWS, items - first)) for first in range(0, items, _ROWS)]
    lines = [_lines(batch) for batch in batches] if name == "json" else []
    failures: list[BaseException] = []

    def send() -> None:
        try:
            with Sender(address, _TOKEN) as sender:
                for batch in batches if name == "arrow" else []:
                    sender.send(batch)
                for few in lines:
                    sender.send_lines(few)
        except BaseException as error:
            failures.append(error)

    started_s = time.perf_counter()
    thread = threading.Thread(target=send)
    thread.start()
    _read(address, items, failures)
    elapsed_s = time.perf_counter() - started_s
    thread.join()
    return elapsed_s


def _read(address: str, items: int, failures: list[BaseException]) -> None:
    """As Spark would: plan, read, commit, until every item has come, each once and in order."""
    came, idle_since_s = 0, time.monotonic()
    with ItemReader(address, _TOKEN) as reader:
        at = reader.first()
        while came < items:
            end = reader.latest(after=at, items_max=1_000_000)
            if end == at:
                if failures or time.monotonic() - idle_since_s > _WITHOUT_ITEMS_MAX_S:
                    raise RunError(f"{items - came} of {items} items did not come: {failures or 'nothing is sent'}.")
                time.sleep(0.001)  # nothing came yet; asking costs the receiver time
                continue
            for batch in reader.read(after=at, upto=end):
                expected = np.arange(came, came + batch.num_rows)
                if not np.array_equal(np.asarray(batch["src"]), expected):
                    raise RunError(f"Items {came} to {came + batch.num_rows} came otherwise than they were sent.")
                came += batch.num_rows
            reader.commit(upto=end)
            at, idle_since_s = end, time.monotonic()


def _batch(first: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + count)
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(numbers % 977), pa.array(numbers % 1500)], ["src", "dst", "bytes"]
    )


def _lines(batch: pa.RecordBatch) -> list[bytes]:
    return [json.dumps(item, separators=(",", ":")).encode() for item in batch.to_pylist()]
