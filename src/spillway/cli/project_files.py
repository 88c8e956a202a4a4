"""What ``spillway new`` puts into a project, by path; PROJECT stands for the project's name."""

_GRAPH = '''"""Sensors: how often each reports, and the mean of what all of them measure."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import spillway as sw
from spillway.operators import Count

READINGS = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("sensor", pa.string()), ("value", pa.float64())])
ROWS = 1_000


def readings(piece: int) -> pa.RecordBatch:
    """Made-up input. Piece n is made from n alone, so that it can be read again after a failure."""
    random = np.random.default_rng([7, piece])
    columns = [
        pa.array(np.arange(ROWS) + piece * ROWS),  # seq: a number that ascends strictly
        pa.array([f"s{number}" for number in random.integers(0, 50, ROWS)]),
        pa.array(random.normal(20.0, 2.0, ROWS)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=READINGS)


class Mean(sw.Operator):
    """The mean of all values so far, once per batch."""

    schema = sw.columns(mean=pa.float64())
    total = sw.Number(metric="l1")
    count = sw.Number(metric="l1")

    def process(self, port, batch):
        self.total += pc.sum(batch["value"]).as_py()
        self.count += batch.num_rows
        yield self.out(mean=self.total / self.count)


def graph() -> sw.Graph:
    """What 'spillway run PROJECT.graph:graph' runs."""
    drawn = sw.Graph("PROJECT")
    source = drawn.source("readings", sw.Generator(make=readings, schema=READINGS, pieces=20))
    counts = drawn.add(Count("counts", key="sensor", protect=sw.Approximate(theta=100)), source)
    mean = drawn.add(Mean("mean", protect=sw.Exact()), source)
    drawn.sink("counts_out", counts, sw.Memory())  # or sw.Parquet("folder")
    drawn.sink("mean_out", mean, sw.Memory())
    return drawn
'''

_TEST = '''"""The graph in one process: what it puts out, and what is left when all memory is lost in mid-stream."""

import pyarrow.compute as pc
from PROJECT.graph import ROWS, graph, readings

import spillway as sw


def test_the_mean_is_that_of_all_readings(tmp_path):
    with sw.LocalRun(graph(), backups=str(tmp_path)) as run:
        run.run()
        found = run.result("mean_out").sort_by("seq")["mean"][-1].as_py()
    wanted = sum(pc.sum(readings(piece)["value"]).as_py() for piece in range(20)) / (20 * ROWS)
    assert abs(found - wanted) < 1e-9


def test_counts_are_off_by_no_more_than_theta_after_a_loss_of_memory(tmp_path):
    def counts(*, lose_after):
        with sw.LocalRun(graph(), backups=str(tmp_path / str(lose_after))) as run:
            while run.step():
                if run.batch == lose_after:
                    run.wipe()
            out = run.result("counts_out").sort_by("seq")
        return dict(zip(out["sensor"].to_pylist(), out["count"].to_pylist()))

    undisturbed, disturbed = counts(lose_after=None), counts(lose_after=10)
    assert sum(undisturbed.values()) == 20 * ROWS
    assert max(abs(undisturbed[sensor] - disturbed.get(sensor, 0)) for sensor in undisturbed) <= 100
'''

_README = """# PROJECT

A pipeline with Spillway: `PROJECT/graph.py` draws it, `tests/` tries it in one process.

```sh
python -m pytest                                                    # in one process, without Spark
spillway run PROJECT.graph:graph --draw                             # what it looks like
spillway run PROJECT.graph:graph                                    # on Spark, on this machine
spillway run PROJECT.graph:graph --protect exact --directory run    # otherwise protected; the same again resumes
spillway profile PROJECT.graph:graph                                # what its operators cost
```

Run them in this folder. To read input of your own, give `drawn.source` a `sw.Trace`, `sw.files(...)`, or any streaming
DataFrame: a function `graph(spark)` is given the Spark session.
"""

_SETTINGS = """[project]
name = "PROJECT"
version = "0.1.0"
dependencies = ["spillway"]

[tool.setuptools]
packages = ["PROJECT"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""

_IGNORED = """__pycache__/
run/
runs/
*.profile.json
"""

FILES = {
    "README.md": _README,
    "pyproject.toml": _SETTINGS,
    ".gitignore": _IGNORED,
    "PROJECT/__init__.py": '"""PROJECT: a pipeline with Spillway."""\n',
    "PROJECT/graph.py": _GRAPH,
    "tests/test_graph.py": _TEST,
}
