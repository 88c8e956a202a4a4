"""Real processes, really killed: nothing is lost while memory lives, and at most the bound when it does not.

Every start of a driver takes Spark ten seconds, so one of them often shows several things.
"""

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
from tests.kill.driver import BATCHES, PIECES, SHARDS, THETA, TIMED, build, kill_driver, make_words
from tests.report.test_campaign_page import words

import spillway as sw
from spillway.backup import Step
from spillway.backup.keeper import SHARD_STEPS
from spillway.records import read_progress
from spillway.report.pages import report_page

pytestmark = [pytest.mark.kill, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
# One kill per batch, at every point there is.
POINTS = [(step.value, batch) for batch, step in enumerate((*SHARD_STEPS, Step.WRITTEN), start=1)]


def start(folder: Path, protections: str, *kill: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.kill.driver", str(folder), protections, *map(str, kill)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes], *, killed: bool) -> None:
    _, errors = process.communicate(timeout=180)
    expected = -signal.SIGKILL if killed else 0
    assert process.returncode == expected, errors.decode()[-3000:]


def output(folder: Path, protection: str) -> pa.Table:
    """What was written, without what only says who wrote it."""
    written = pyarrow.dataset.dataset(folder / "out" / protection, partitioning="hive").to_table()
    return pa.table(written.to_pydict())


def ideal(folder: Path, protection: str = "nothing") -> pa.Table:
    """What a run without any fault puts out, from the local runtime."""
    graph = build(folder / "ideal", protection)
    with sw.LocalRun(graph, backups=str(folder / "ideal" / "backups")) as run:
        run.run()
    return output(folder / "ideal", protection)


def final_counts(table: pa.Table) -> dict[str, int]:
    newest: dict[str, tuple[int, int]] = {}
    for row in table.to_pylist():
        newest[row["word"]] = max(newest.get(row["word"], (-1, 0)), (row["batch"], row["count"]))
    return {word: count for word, (_, count) in newest.items()}


def test_driver_killed_at_every_point_and_a_worker_in_mid_batch_lose_nothing(tmp_path: Path) -> None:
    for step, batch in POINTS:
        finish(start(tmp_path, "approximate", step, batch, "driver"), killed=True)
        assert list(tmp_path.glob(f"killed-{step}-*")), f"never reached {step}"
    finish(start(tmp_path, "approximate", "applying", BATCHES - 1, "worker"), killed=False)
    assert list(tmp_path.glob("killed-*-worker"))
    assert in_order(output(tmp_path, "approximate")) == in_order(ideal(tmp_path))


def test_driver_killed_and_memory_wiped_loses_what_was_promised_and_no_record(tmp_path: Path) -> None:
    both = "exact+approximate"
    for step, batch in [("applying", 1), ("backed-up", 2), ("written", 4), ("committed", 6)]:
        finish(start(tmp_path, both, step, batch, "driver"), killed=True)
        shutil.rmtree(tmp_path / "state")
        if step == "written":
            assert recorded(tmp_path) == every_shard(batches=batch + 1)
            said = words(report_page(tmp_path / "run"))
            assert f"{batch + 1} batches. Started" in said and "Its process is gone without a word." in said
    finish(start(tmp_path, both), killed=False)
    assert in_order(output(tmp_path, "exact")) == in_order(ideal(tmp_path))
    truth = Counter(word for piece in range(BATCHES * PIECES) for word in make_words(piece)["word"].to_pylist())
    counts = final_counts(output(tmp_path, "approximate"))
    # A word not seen after a loss was last reported before it, when nothing was missing yet: states are compared.
    assert all(counts[word] <= truth[word] for word in truth)
    state = Counter(dict(zip(*map(list, state_of(tmp_path, both)), strict=True)))
    missing = sum(truth[word] - state[word] for word in truth)
    assert 0 < missing <= THETA
    assert set(state) <= set(truth)
    assert recorded(tmp_path) == every_shard(batches=BATCHES)
    assert read_progress(tmp_path / "run").repeated == len(every_shard(batches=1))  # Spark had not committed batch 4
    said = words(report_page(tmp_path / "run"))
    assert f"{BATCHES} batches. Started" in said and ", finished. Drivers before this one, since" in said
    assert ": 4 gone without a word." in said
    assert "lack a record" not in said


def test_what_is_late_is_the_same_whoever_is_killed_and_whatever_memory_is_lost(tmp_path: Path) -> None:
    for step, batch in [("applying", 2), ("backed-up", 4), ("committed", 5)]:
        finish(start(tmp_path, TIMED, step, batch, "driver"), killed=True)
        if step != "committed":
            shutil.rmtree(tmp_path / "state")
    finish(start(tmp_path, TIMED, "applying", BATCHES - 1, "worker"), killed=False)
    wanted = in_order(ideal(tmp_path, TIMED))
    assert wanted.num_rows and in_order(output(tmp_path, TIMED)) == wanted
    late = in_order(output(tmp_path / "ideal", "late"))
    assert in_order(output(tmp_path, "late")) == late
    rows = read_progress(tmp_path / "run").rows
    assert {max(rows, key=lambda row: row.batch).batch} == {BATCHES - 1}
    assert min(sum(row.late for row in rows), sum(row.ahead for row in rows)) > 0
    assert sum(row.late + row.ahead for row in rows) == late.num_rows


@pytest.mark.parametrize("seed", [1])
def test_driver_killed_at_random_moments_loses_nothing(tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)
    for _ in range(2):
        process = start(tmp_path, "approximate")
        # Not a synchronisation: any moment is a right one, the start of the JVM included.
        try:
            process.wait(timeout=moments.uniform(5, 14))
        except subprocess.TimeoutExpired:
            kill_driver(process.pid)
        process.communicate()
    finish(start(tmp_path, "approximate"), killed=False)
    assert in_order(output(tmp_path, "approximate")) == in_order(ideal(tmp_path)), f"seed {seed}"


def recorded(folder: Path) -> list[tuple[int, str, int]]:
    return sorted((row.batch, row.operator, row.shard) for row in read_progress(folder / "run").rows)


def every_shard(*, batches: int) -> list[tuple[int, str, int]]:
    names = ("approximate", "exact")
    return [(batch, name, shard) for batch in range(batches) for name in names for shard in range(SHARDS)]


def state_of(folder: Path, protections: str) -> tuple[list[str], list[int]]:
    """The words and counts in the memory of the approximate one's shards after the run."""
    found: list[str] = []
    counts: list[int] = []
    with sw.LocalRun(
        build(folder, protections), state=folder / "state", backups=str(folder / "backups"), batch=BATCHES
    ) as run:
        for shard in range(SHARDS):
            keys, numbers = run.shard("approximate", shard).counts.items()  # type: ignore[attr-defined]
            found += keys.to_pylist()
            counts += numbers.tolist()
    return found, counts
