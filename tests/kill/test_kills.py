"""Real processes, really killed: nothing is lost while memory lives, and at most the bound when it does not."""

import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.conftest import in_order
from tests.kill.driver import BATCHES, PIECES, THETA, build, jvm_of, make_words

import spillway as sw
from spillway.backup import Step

pytestmark = [pytest.mark.kill, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
# One kill per batch, at every point there is.
POINTS = [(step.value, batch) for batch, step in enumerate(Step, start=1)]


def start(folder: Path, protection: str, *kill: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.kill.driver", str(folder), protection, *map(str, kill)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes], *, killed: bool) -> None:
    _, errors = process.communicate(timeout=180)
    expected = -signal.SIGKILL if killed else 0
    assert process.returncode == expected, errors.decode()[-3000:]


def output(folder: Path) -> pa.Table:
    """What was written, without what only says who wrote it."""
    written = pyarrow.dataset.dataset(folder / "out", partitioning="hive").to_table()
    return pa.table(written.to_pydict())


def ideal(folder: Path) -> pa.Table:
    """What a run without any fault puts out, from the local runtime."""
    graph = build(folder / "ideal", "nothing")
    with sw.LocalRun(graph) as run:
        run.run()
    return output(folder / "ideal")


def final_counts(table: pa.Table) -> dict[str, int]:
    newest: dict[str, tuple[int, int]] = {}
    for row in table.to_pylist():
        newest[row["word"]] = max(newest.get(row["word"], (-1, 0)), (row["batch"], row["count"]))
    return {word: count for word, (_, count) in newest.items()}


def test_driver_killed_at_every_point_loses_nothing(tmp_path: Path) -> None:
    for step, batch in POINTS:
        finish(start(tmp_path, "approximate", step, batch, "driver"), killed=True)
        assert list(tmp_path.glob(f"killed-{step}-*")), f"never reached {step}"
    finish(start(tmp_path, "approximate"), killed=False)
    assert in_order(output(tmp_path)) == in_order(ideal(tmp_path))


def test_driver_killed_and_memory_wiped_stays_within_the_bound(tmp_path: Path) -> None:
    for step, batch in [("applying", 2), ("backed-up", 4), ("written", 6)]:
        finish(start(tmp_path, "approximate", step, batch, "driver"), killed=True)
        shutil.rmtree(tmp_path / "state")
    finish(start(tmp_path, "approximate"), killed=False)
    truth = Counter(word for piece in range(BATCHES * PIECES) for word in make_words(piece)["word"].to_pylist())
    counts = final_counts(output(tmp_path))
    # A word not seen after a loss was last reported before it, when nothing was missing yet: states are compared.
    assert all(counts[word] <= truth[word] for word in truth)
    state = Counter(dict(zip(*map(list, state_of(tmp_path)), strict=True)))
    missing = sum(truth[word] - state[word] for word in truth)
    assert 0 < missing <= THETA
    assert set(state) <= set(truth)


def test_exact_driver_killed_and_memory_wiped_loses_nothing(tmp_path: Path) -> None:
    for step, batch in [("backed-up", 2), ("committed", 5)]:
        finish(start(tmp_path, "exact", step, batch, "driver"), killed=True)
        shutil.rmtree(tmp_path / "state")
    finish(start(tmp_path, "exact"), killed=False)
    assert in_order(output(tmp_path)) == in_order(ideal(tmp_path))


def test_worker_killed_in_mid_batch_loses_nothing(tmp_path: Path) -> None:
    finish(start(tmp_path, "approximate", "applying", 3, "worker"), killed=False)
    assert list(tmp_path.glob("killed-*"))
    assert in_order(output(tmp_path)) == in_order(ideal(tmp_path))


@pytest.mark.parametrize("seed", [1])
def test_driver_killed_at_random_moments_loses_nothing(tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)
    for _ in range(2):
        process = start(tmp_path, "approximate")
        # Not a synchronisation: any moment is a right one, the start of the JVM included.
        try:
            process.wait(timeout=moments.uniform(5, 14))
        except subprocess.TimeoutExpired:
            java = jvm_of(process.pid)
            process.kill()
            subprocess.run(["kill", "-9", str(java)], check=False)
        process.communicate()
    finish(start(tmp_path, "approximate"), killed=False)
    assert in_order(output(tmp_path)) == in_order(ideal(tmp_path)), f"seed {seed}"


def state_of(folder: Path) -> tuple[list[str], list[int]]:
    """The words and counts in the shards' memory after the run."""
    words: list[str] = []
    counts: list[int] = []
    with sw.LocalRun(
        build(folder, "approximate"), state=folder / "state", backups=str(folder / "backups"), batch=BATCHES
    ) as run:
        for shard in range(2):
            keys, numbers = run.shard("count", shard).counts.items()  # type: ignore[attr-defined]
            words += keys.to_pylist()
            counts += numbers.tolist()
    return words, counts
