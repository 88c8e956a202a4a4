"""What operators claim to carry holds: random graphs and losses, against the same graph without any.

The judge takes bounds from ``promises`` alone: states stay within own losses plus factor times those upstream after
every batch, and what leaves differs by no more than the sinks say. A failure prints its seed.
"""

import math
import shutil
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.running import feed_of, tuples

import spillway as sw
from spillway.operators.carried import Tuples
from spillway.operators.promises import Promises, promises
from spillway.seeds import generator
from spillway.state.folders import default_root

BATCHES, ROWS, SEEDS = 12, 40, range(6)
Random = np.random.Generator


def batches(seed: int) -> list[pa.RecordBatch]:
    made = []
    for number in range(BATCHES):
        random = generator(seed, "tuples", number)
        keys = random.zipf(1.4, ROWS) % 30
        made.append(tuples(number * ROWS, word=[f"w{key}" for key in keys], n=random.integers(0, 20, ROWS)))
    return made


def theta(random: Random, *choices: float) -> sw.Approximate:
    return sw.Approximate(theta=float(random.choice(choices or (40, 200, 1000))))


def any_protection(random: Random) -> sw.Protection:
    choices = [sw.Exact(), theta(random), theta(random), sw.UpstreamBackup(every=100)]
    return choices[random.integers(len(choices))]


def counted_again(graph: sw.Graph, source: sw.Stream, random: Random) -> sw.Stream:
    metric = str(random.choice(["max", "l1", "l2"]))
    first = graph.add(sw.operators.Count("first", key="word", value="n", metric=metric, protect=theta(random)), source)  # type: ignore[arg-type]
    kept = graph.add(sw.operators.Where("kept", sw.field("word") != "w1"), first)
    return graph.add(sw.operators.Count("second", key="word", protect=any_protection(random)), kept)


def latest(graph: sw.Graph, source: sw.Stream, random: Random) -> sw.Stream:
    sketch = sw.operators.CountMin("sketch", key="word", value="n", rows=2, width=16, protect=theta(random))
    join = sw.operators.LatestJoin("latest", key="word", value="n", value_as="now", protect=any_protection(random))
    return graph.add(join, graph.add(sketch, source), source)


def slid(graph: sw.Graph, source: sw.Stream, random: Random) -> sw.Stream:
    first = graph.add(sw.operators.Count("first", key="word", value="n", protect=theta(random)), source)
    sums = {"sum": "count", "square": ("count", "count")}
    sliding = sw.operators.SlidingAggregate("slid", key="word", sums=sums, size=int(random.integers(1, 6)), every=2)
    return graph.add(sliding, first)


def met(graph: sw.Graph, source: sw.Stream, random: Random) -> sw.Stream:
    left = graph.add(sw.operators.Count("first", key="word", value="n", protect=theta(random)), source)
    right = graph.add(sw.operators.Count("second", key="word", protect=theta(random)), source)
    return graph.add(sw.operators.Barrier("met", key="word", left=["count"], right=["count"]), left, right)


def paired(graph: sw.Graph, source: sw.Stream, random: Random) -> sw.Stream:
    left = graph.add(sw.operators.Count("first", key="word", value="n", protect=theta(random, 1000, 4000)), source)
    return graph.add(sw.operators.WindowJoin("paired", key="word", left=["count"], right=["n"], size=2), left, source)


def heavy(graph: sw.Graph, source: sw.Stream, random: Random) -> sw.Stream:
    shape = {"key": "word", "value": "n", "phi": 150, "rows": 2, "width": 32}
    window, protect = sw.Hopping(count=3 * ROWS), theta(random, 40, 100)
    local = sw.operators.hitters.LocalSketch("local", shards=2, window=window, protect=protect, **shape)  # type: ignore[arg-type]
    graph.add(local, source)
    merge = sw.operators.hitters.MergeSketches("merge", **shape)  # type: ignore[arg-type]
    return graph.add(merge, graph.output(local, "sketch"), graph.output(local, "candidates"))


Build = Callable[[sw.Graph, sw.Stream, Random], sw.Stream]
GRAPHS: list[Build] = [counted_again, latest, slid, met, paired, heavy]


def built(build: Build, seed: int) -> sw.Graph:
    graph = sw.Graph("g", shards=2)
    source = graph.source("source", feed_of(batches(seed)))
    graph.sink("out", build(graph, source, generator(seed, "graph")), sw.Memory())
    return graph


def stateful(graph: sw.Graph) -> list[str]:
    return [name for name, node in graph.nodes.items() if isinstance(node, sw.Operator) and node.stateful]


def content(operator: Any) -> list[dict[Any, float]]:
    """The numbers of each primitive by key or position; nobody claims anything of other kinds here."""
    found = []
    for primitive in operator.opened_state.values():
        if isinstance(primitive, sw.Tally | sw.TallyTable | sw.KeySet | sw.Window):
            continue
        if isinstance(primitive, sw.HashTable):
            keys, values = primitive.items()
            found.append(dict(zip(keys.to_pylist(), values.tolist(), strict=True)))
        else:
            found.append(dict(enumerate(primitive.read().ravel().tolist())))
    return found


def distance(here: dict[Any, float], there: dict[Any, float], metric: str) -> float:
    errors = np.array([here.get(key, 0) - there.get(key, 0) for key in {*here, *there}] or [0.0], float)
    norms = {"max": np.abs(errors).max(), "l1": np.abs(errors).sum(), "l2": np.sqrt((errors**2).sum())}
    return float(norms[metric])


States = list[dict[tuple[str, int], list[dict[Any, float]]]]


def run(graph: sw.Graph, lose: Callable[[sw.LocalRun], None]) -> tuple[States, pa.Table]:
    states: States = []
    checked = graph.checked()
    with TemporaryDirectory(dir=default_root().parent) as backups, sw.LocalRun(graph, backups=backups) as local:
        while True:
            lose(local)
            if not local.step():
                return states, local.result("out")
            states.append(
                {
                    (name, shard): content(local.shard(name, shard))
                    for name in stateful(graph)
                    for shard in range(checked.shards_of(name))
                }
            )


def losses(graph: sw.Graph, seed: int) -> Callable[[sw.LocalRun], None]:
    """Lose the memory of one operator, or of one shard of it, or all, now and then."""
    random = generator(seed, "losses")
    names = stateful(graph)

    def lose(local: sw.LocalRun) -> None:
        if random.random() < 0.35:
            name = names[random.integers(len(names))]
            match random.integers(3):
                case 0:
                    local.wipe()
                case 1:
                    shutil.rmtree(local.state / "g" / name, ignore_errors=True)
                case _:
                    shutil.rmtree(local.state / "g" / name / f"{random.integers(2):04d}", ignore_errors=True)

    return lose


def judge_states(found: Promises, real: States, ideal: States) -> float:
    """Every state within its total after every batch; returns the largest share of a total that was used."""
    share = 0.0
    for promise in found.operators:
        if not math.isfinite(promise.total_max) or len(promise.metrics) != 1:
            continue
        for batch, (here, there) in enumerate(zip(real, ideal, strict=True)):
            of_shards = [
                sum(distance(mine, other, promise.metrics[0]) for mine, other in zip(here[at], there[at], strict=True))
                for at in here
                if at[0] == promise.operator
            ]
            # All of these operators have one primitive at most that is measured by max, and are divided by key.
            apart = max(of_shards) if promise.metrics == ("max",) else sum(of_shards)
            assert apart <= promise.total_max + 1e-9, f"{promise.operator} in batch {batch}: {apart}"
            share = max(share, apart / promise.total_max if promise.total_max else 0.0)
    return share


def judge_output(found: Promises, real: pa.Table, ideal: pa.Table) -> float:
    (sink,) = found.sinks
    columns = {name for _, carried in sink.carried for name in carried.off}
    off = dict.fromkeys(columns, 0.0)
    for origin, carried in sink.carried:
        for name, factor in carried.off.items():
            off[name] += factor * origin.loss_max
    same = all(carried.tuples is Tuples.SAME for _, carried in sink.carried)
    vague = any(carried.tuples is Tuples.ANY and not carried.off for _, carried in sink.carried)
    if vague:
        return 0.0
    known = [name for name in real.column_names if name not in columns]
    here, there = by_rest(real, known, columns), by_rest(ideal, known, columns)
    if same:
        assert here.keys() == there.keys()
    share = 0.0
    for rest in here.keys() & there.keys():
        # Tuples of one seq may come in another order.
        for mine, other in zip(sorted(here[rest]), sorted(there[rest]), strict=same):
            for name, a, b in zip(sorted(columns), mine, other, strict=True):
                if math.isfinite(off[name]):
                    assert abs(a - b) <= off[name] + 1e-9, f"{name} of {rest}: {a} for {b}"
                    share = max(share, abs(a - b) / off[name])
    return share


def by_rest(table: pa.Table, known: list[str], columns: set[str]) -> dict[Any, list[tuple[float, ...]]]:
    rows: dict[Any, list[tuple[float, ...]]] = {}
    for row in table.to_pylist():
        rows.setdefault(tuple(row[name] for name in known), []).append(tuple(row[name] for name in sorted(columns)))
    return rows


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_nothing_is_off_by_more_than_is_promised(build: Build) -> None:
    shares = []
    for seed in SEEDS:
        graph = built(build, seed)
        found = promises(graph.checked())
        ideal, golden = run(built(build, seed), lambda local: None)
        real, output = run(graph, losses(graph, seed))
        try:
            shares.append(max(judge_states(found, real, ideal), judge_output(found, output, golden)))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(found.sentences())) from error
    assert max(shares) > 0.05, f"losses that move nothing show nothing: {shares}"
