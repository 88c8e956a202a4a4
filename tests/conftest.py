"""Fixtures shared by all tests: a Spark session, and one runtime after the other."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import settings
from tests.spark_archive import submit_arguments
from tests.tables.postgres import Server, running

import spillway as sw

# A property takes as long as it takes: the first example may compile a kernel.
settings.register_profile("no-deadline", deadline=None, print_blob=True)
settings.load_profile("no-deadline")

Results = dict[str, pa.Table]
RunGraph = Callable[..., Results]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests that need one."""
    from spillway.spark import session

    session_ = session(master="local[2,4]")
    yield session_
    session_.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One PostgreSQL server for all tests that need one; each makes a schema of its own in it."""
    with running() as server:
        yield server


@pytest.fixture
def schema(postgres: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A schema of its own."""
    name = f"s{crc32(request.node.nodeid.encode()):x}"
    postgres.run(f"CREATE SCHEMA {name}")
    yield name
    postgres.run(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def run_graph(request: pytest.FixtureRequest, tmp_path: Path) -> RunGraph:
    """Run a graph to its end on one of the runtimes; returns what its Memory sinks were given, rows sorted."""

    def run_locally(graph: sw.Graph, **options: Any) -> Results:
        with sw.LocalRun(graph, backups=str(tmp_path / "backups"), **options) as run:
            run.run()
            return {name: in_order(run.result(name)) for name in memory_sinks(graph)}

    def run_on_spark(graph: sw.Graph, **options: Any) -> Results:
        from spillway.spark import run as run_spark

        spark = request.getfixturevalue("spark")
        options = {"trigger": {"availableNow": True}, **options}
        with run_spark(graph, spark, backups=tmp_path / "backups", **options) as run:
            run.wait()
            return {name: in_order(run.result(name)) for name in memory_sinks(graph)}

    return run_locally if request.param == "local" else run_on_spark


def memory_sinks(graph: sw.Graph) -> list[str]:
    return [name for name, node in graph.nodes.items() if isinstance(getattr(node, "sink", None), sw.Memory)]


def in_order(table: pa.Table) -> pa.Table:
    """Rows sorted by all columns: the order in which shards put tuples out means nothing."""
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End with what starts Spark, whose classes are gathered meanwhile, and of that begin with what takes longest."""
    items.sort(key=lambda item: (_starts_spark(item), item.get_closest_marker("kill") is None))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _starts_spark(item):
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", submit_arguments())


def _starts_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None
