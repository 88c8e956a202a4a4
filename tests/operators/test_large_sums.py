"""Sums that do not fit 64 bits stop the batch with a sentence, and leave all as it was."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.running import feed_of, graph_of, running, through, tuples

from spillway.errors import GraphError, InputError
from spillway.graph import Approximate, Exact, Graph, Hopping, Memory, Nothing, Protection
from spillway.operators import Count, CountMin
from spillway.operators.hitters import COUNTERS, LocalSketch, MergeSketches
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.ripple_join import ESTIMATE, RippleJoin, SumEstimates
from spillway.state import Number

MOST = 2**63 - 1
REMEDY = "What helps: float64 instead of int64, a larger unit (MB for bytes), or a window, after which sums begin anew."


def amounts(first: int, *pairs: tuple[str, int]) -> pa.RecordBatch:
    return tuples(first, word=[word for word, _ in pairs], v=pa.array([amount for _, amount in pairs], pa.int64()))


@pytest.mark.parametrize("protect", [Nothing(), Exact(), Approximate(2.0**62)])
@pytest.mark.parametrize("lost", [False, True])
def test_a_batch_whose_sum_does_not_fit_is_refused_whenever_it_is_tried(protect: Protection, lost: bool) -> None:
    batches = [amounts(0, ("a", 7), ("b", 2**62)), amounts(2, ("new", 1), ("b", 2**62), ("a", 5)), amounts(5, ("c", 3))]
    refused = []
    with running(graph_of(Count("sums", key="word", value="v", protect=protect), batches=batches, shards=1)) as run:
        run.step()
        if lost and not isinstance(protect, Nothing):
            run.wipe()
        for _ in range(3):
            with pytest.raises(InputError) as error:
                run.step()
            refused.append(str(error.value))
            assert run.batch == 1
            keys, sums = run.shard("sums", 0).counts.items()  # type: ignore[attr-defined]
            assert dict(zip(keys.to_pylist(), sums.tolist(), strict=True)) == {"a": 7, "b": 2**62}
        batches[1] = amounts(2, ("b", 2**62 - 1))
        run.run()
        out = run.result("out").to_pylist()
    assert (
        refused
        == [
            "Operator 'sums': state 'counts', HashTable(string,int64,max), has 4611686018427387904 for key 'b', and "
            f"4611686018427387904 more came: the sum does not fit 64 bits. The batch was refused. {REMEDY}"
        ]
        * 3
    )
    assert [(row["seq"], row["word"], row["count"]) for row in out] == [
        (1, "a", 7), (1, "b", 2**62), (2, "b", MOST), (5, "c", 3),
    ]  # fmt: skip


def test_the_sum_of_the_report() -> None:
    """Thirty times 2^62 used to come out as -2^63."""
    count = Count("sums", key="word", value="v", protect=Nothing())
    with pytest.raises(InputError, match="has 0 for key 'a', and 9223372036854775808 more came"):
        through(count, batches=[amounts(0, *[("a", 2**62)] * 30)])


def test_an_earlier_portion_of_a_refused_batch_is_rolled_back() -> None:
    """The portions of one batch are applied one after the other; the second is refused."""
    pieces = [amounts(0, ("a", 1)), amounts(1, ("b", 1)), amounts(2, ("a", 5)), amounts(3, ("b", MOST))]
    count = Count("sums", key="word", value="v", protect=Exact())
    with running(graph_of(count, batches=pieces, shards=1, pieces_per_batch=2)) as run:
        run.step()
        with pytest.raises(InputError, match="has 1 for key 'b'"):
            run.step()
        pieces[3] = amounts(3, ("b", 3))
        run.run()
        assert [row["count"] for row in run.result("out").to_pylist()] == [1, 1, 6, 4]


def sketch(**options: Any) -> CountMin:
    return CountMin("flows", key="word", value="v", rows=2, width=8, **options)


def test_a_sketch_refuses_the_sum_of_one_portion() -> None:
    with pytest.raises(InputError) as error:
        through(sketch(protect=Nothing()), batches=[amounts(0, ("b", 5), ("a", MOST), ("a", 1), ("a", 4))])
    assert str(error.value) == (
        "Operator 'flows': column 'v' has 9223372036854775807 for key 'a', and 1 more came: the sum does not fit 64 "
        "bits. The batch was refused. What helps: a larger unit (MB for bytes), or a window, after which sums begin "
        "anew."
    )


def test_a_sketch_refuses_a_counter_that_overflows() -> None:
    with pytest.raises(
        InputError, match=r"Operator 'flows': state 'sketch', .* has \d+ in row 0, column \d, and 2 mor"
    ):
        through(sketch(protect=Nothing()), batches=[amounts(0, ("a", MOST - 1)), amounts(1, ("a", 2))])


def test_a_sketch_that_cannot_be_raised_after_a_loss_says_so() -> None:
    batches = [amounts(0, ("a", MOST - 10)), amounts(1, ("b", 1))]
    protect = Approximate(theta=100.0)
    with running(graph_of(sketch(protect=protect), batches=batches, shards=1)) as run:
        run.step()
        run.wipe()
        for missing in (50, 75):  # an attempt to recover that is given up was a failure too
            with pytest.raises(InputError) as error:
                run.step()
            assert str(error.value) == (
                f"Operator 'flows': after a loss of memory every counter is raised by the most that can be missing "
                f"from it, here {missing}, and the largest is 9223372036854775797: the sum does not fit 64 bits. "
                f"What helps: a smaller theta, a larger unit (MB for bytes), or a window, after which sums begin anew."
            )


@pytest.mark.parametrize(
    ("protect", "largest"), [(Approximate(theta=1e19), 0), (Approximate(theta=10, items=2.0**40), 2**40)]
)
def test_a_theta_that_no_counter_can_be_raised_by_is_refused(protect: Protection, largest: int) -> None:
    with pytest.raises(
        GraphError, match=r"Operator 'flows': after losses of memory counters are raised by up to .* which"
    ):
        sketch(protect=protect, largest=largest)


def merged(counters: list[tuple[int, int, int]]) -> Graph:
    """Counters (row, column, value) of one window, merged; key "a" may be heavy."""
    rows, cells, values = zip(*counters, strict=True)
    came = pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(len(rows))),
            *(pa.array(part, pa.int64()) for part in ([3] * len(rows), rows, cells, values)),
        ],
        schema=COUNTERS,
    )
    graph = Graph("g")
    sources = [graph.source("s", feed_of([came])), graph.source("c", feed_of([tuples(window=[3], word=["a"])]))]
    merge = MergeSketches("heavy", key="word", value="v", phi=10, rows=1, width=4)
    graph.sink("out", graph.add(merge, *sources), Memory())
    return graph


def test_merged_counters_that_overflow_are_refused() -> None:
    with running(merged([(0, 1, 2**62), (0, 2, 1), (0, 1, 2**62)])) as run:
        for _ in range(2):
            with pytest.raises(InputError) as error:
                run.step()
            assert str(error.value).startswith(
                f"Operator 'heavy': window 3 has {2**62} in row 0, column 1, and {2**62} more came: the sum does"
            )


def test_local_sketches_refuse_too() -> None:
    local = LocalSketch("local", key="word", value="v", phi=10, shards=1, window=Hopping(count=10), rows=1, width=4)
    graph = Graph("g")
    graph.add(local, graph.source("s", feed_of([amounts(0, ("a", MOST), ("a", 1))])))
    for port in ("sketch", "candidates"):
        graph.sink(port, graph.output(local, port), Memory())
    with running(graph) as run, pytest.raises(InputError, match="Operator 'local': column 'v' has"):
        run.step()


class TestJoin:
    COUNT = 2_100_000  # tuples of one key on each side: their cubes pass 2^63, and used to wrap around

    def graph(self) -> Graph:
        side = [tuples(key=pa.array(np.zeros(self.COUNT, np.int64)))]
        graph = Graph("g", shards=1)
        sources = [graph.source(name, feed_of(side)) for name in ("l", "r")]
        graph.sink("out", graph.add(RippleJoin("join", key="key", rate=1.0), *sources), Memory())
        return graph

    def test_sums_of_products_are_refused(self) -> None:
        with running(self.graph()) as run:
            for _ in range(2):
                with pytest.raises(InputError) as error:
                    run.step()
                assert str(error.value) == (
                    f"Operator 'join': the sum of A·B·(A + B) over its keys, of A and B sampled tuples, has 0, and "
                    f"{2 * self.COUNT**3} more came: the sum does not fit 64 bits. The batch was refused. What helps: "
                    f"a lower rate."
                )

    def test_a_bound_beyond_all_numbers_is_no_bound(self) -> None:
        side = [tuples(first, key=[1, 2]) for first in (0, 2)]
        graph = Graph("g", shards=1)
        sources = [graph.source(name, feed_of(side)) for name in ("l", "r")]
        join = RippleJoin("join", key="key", rate=1.0, protect=Approximate(theta=1e30))
        graph.sink("out", graph.add(join, *sources), Memory())
        with running(graph) as run:
            run.step()
            run.wipe()
            run.run()
            assert run.result("out")["lost_max"].to_pylist() == [0.0, float("inf")]

    def test_estimates_that_add_up_to_too_much_are_refused(self) -> None:
        values = {"pairs": [2**62, 2**62], "left": [1, 1], "right": [1, 1]}
        came = tuples(**{field.name: values.get(field.name, [1.0, 1.0]) for field in ESTIMATE if field.name != "seq"})
        with pytest.raises(InputError, match="Operator 'total': the pairs of all shards are 9223372036854775808"):
            through(SumEstimates("total"), batches=[came])


class Total(Operator):
    schema = columns(total=pa.int64())
    total = Number(dtype="int64")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self.total += sum(batch["v"].to_pylist())
        yield self.out(total=self.total)


def test_a_number_of_ones_own_operator_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"Operator 'mine': state 'total', Number\(1,int64,l1\), has 9.*807, and 1 more"
    ):
        through(Total("mine", protect=Nothing()), batches=[amounts(0, ("a", MOST)), amounts(1, ("a", 1))])
