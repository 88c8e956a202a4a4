"""``spillway bench receiver``: items a second through a receiver on one core, with none lost.

The receiver is a process of its own, kept on one core. A sender and a reader that stands for Spark share the others:
the reader asks how far it may go, reads, and commits, so items are made durable only when it falls behind by more than
the bound allows. Measured is from the first item sent to the last one committed; every item is counted and its number
checked. Frames of Arrow and lines of JSON take turns.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, rate
from spillway.errors import RunError
from spillway.receiver import ItemReader, Sender
from spillway.records.rundir import machine

MEANING = "items a second through a receiver on one core, with none lost"

_SCHEMA = "src:int64,dst:int64,bytes:int64"
_TOKEN = "bench receiver"
_ROWS = 10_000
_FORMATS = ("arrow", "json")
_JSON_SHARE = 8  # lines of JSON are slower: fewer of them take as long
_WITHOUT_ITEMS_MAX_S = 30.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tuples", type=float, default=4e6, help="items in a round of Arrow frames (default: 4e6)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each format (default: 3)")
    parser.add_argument("--items", type=float, default=2e5, help="L of the receiver (default: 2e5)")
    parser.add_argument("--unacked", type=float, default=2e5, help="Γ of the sender (default: 2e5)")


def main(options: argparse.Namespace) -> int:
    samples: dict[str, list[float]] = {name: [] for name in _FORMATS}
    cores = os.sched_getaffinity(0)
    sent = 0
    with tempfile.TemporaryDirectory(prefix="spillway-bench-") as folder:
        process, address = _start(Path(folder), options)
        try:
            for _ in range(options.rounds):
                for name in _FORMATS:
                    items = int(options.tuples) // (1 if name == "arrow" else _JSON_SHARE)
                    samples[name].append(items / _round(address, name, items))
                    sent += items
                    PROGRESS.print(f"{name}: {rate(samples[name][-1])}")
            with ItemReader(address, _TOKEN) as reader:
                status = reader.status()
        finally:
            os.sched_setaffinity(0, cores)
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
    result: dict[str, Any] = {
        "items_per_s": {name: statistics.median(rates) for name, rates in samples.items()},
        "samples": samples,
        "lost": sent - status["position"]["committed"],  # numbers have no gaps unless something failed
        "items_at_risk_allowed": status["items_at_risk_allowed"],
        "saves": status["counts"]["saves"],
        "saved_items": status["counts"]["saved_items"],
        "taken": status["counts"]["taken"],
        "receiver_cores": 1,
        "machine": machine(),
    }
    if options.json:
        print_json(result)
        return 0
    print_table(
        "A receiver on one core",
        ["format", "items a second", "lowest", "highest"],
        [[name, rate(statistics.median(r)), rate(min(r)), rate(max(r))] for name, r in samples.items()],
    )
    PEOPLE.print(
        f"{result['lost']:,} of {sent:,} items lost, none taken twice; {result['saved_items']:,} were made durable."
    )
    return 0


def _start(folder: Path, options: argparse.Namespace) -> tuple[subprocess.Popen[bytes], str]:
    """A receiver on the first core of those we may use, and where it listens; we keep to the others."""
    cores = sorted(os.sched_getaffinity(0))
    code = "import sys; from spillway.cli.bench_receiver import serve; sys.exit(serve(sys.argv[1:]))"
    arguments = [str(folder), str(options.items), str(options.unacked), str(cores[0])]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RunError("The receiver of the bench did not start; see above.")
    if len(cores) > 1:
        os.sched_setaffinity(0, set(cores[1:]))
    return process, f"127.0.0.1:{json.loads(line)['port']}"


def serve(arguments: list[str]) -> int:
    """The receiver's process."""
    from spillway.cli import receive

    folder, items, unacked, core = arguments
    os.sched_setaffinity(0, {int(core)})
    os.environ["SPILLWAY_TOKEN"] = _TOKEN
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    receive.add_options(parser)
    given = ["--json", "--schema", _SCHEMA, "--folder", folder, "--items", items, "--unacked", unacked]
    return receive.main(parser.parse_args([*given, "--port", "0", "--http-port", "-1"]))


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
