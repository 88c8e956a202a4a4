"""Operators that keep nothing."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.running import feed_of, graph_of, through, tuples

from spillway.errors import GraphError, InputError
from spillway.graph import Graph, Memory
from spillway.local import LocalRun
from spillway.operators import Apply, Match, Select, Union, Where, Words
from spillway.operators.operator import Operator
from spillway.operators.stateless import field

NUMBERS = tuples(k=["a", "b", None, "d"], v=pa.array([1, 20, 30, None], pa.int64()))


class TestWhere:
    def test_keeps_what_holds(self) -> None:
        assert through(Where("w", field("v") > 10), batches=[NUMBERS])["seq"].to_pylist() == [1, 2]

    def test_null_does_not_hold(self) -> None:
        assert through(Where("w", field("v") < 10**9), batches=[NUMBERS])["seq"].to_pylist() == [0, 1, 2]
        assert through(Where("w", field("k").is_null()), batches=[NUMBERS])["seq"].to_pylist() == [2]

    def test_the_schema_stays(self) -> None:
        out = through(Where("w", field("v") > 10**9), batches=[NUMBERS])
        assert (out.num_rows, out.schema) == (0, NUMBERS.schema)

    def test_the_order_stays(self) -> None:
        many = tuples(v=np.arange(300_000) % 7)
        seqs = through(Where("w", field("v") == 3), batches=[many])["seq"].to_numpy()
        assert (np.diff(seqs) == 7).all()

    @pytest.mark.parametrize(
        "condition", [field("bytes") > 1, field("k") > 1, field("v") + 1], ids=["no column", "no number", "no truth"]
    )
    def test_a_condition_that_cannot_be_asked(self, condition: Any) -> None:
        with pytest.raises(GraphError, match=r"Operator 'w': .* cannot be asked of columns seq, k, v \("):
            graph_of(Where("w", condition), batches=[NUMBERS]).checked()

    @pytest.mark.parametrize("condition", ["v > 1", lambda row: True, None])
    def test_a_condition_is_an_expression(self, condition: Any) -> None:
        with pytest.raises(
            GraphError, match=r"Operator 'w': a condition such as field\('bytes'\) > 10 is wanted; got "
        ):
            Where("w", condition)


class TestMatch:
    LINES = tuples(line=["It was the best", "of times", None, "it was", ""])

    @pytest.mark.parametrize(
        ("pattern", "seqs"), [("it", [3]), ("(?i)^it", [0, 3]), ("s$", [1, 3]), ("", [0, 1, 3, 4]), ("x", [])]
    )
    def test_keeps_what_matches(self, pattern: str, seqs: list[int]) -> None:
        assert through(Match("m", pattern), batches=[self.LINES])["seq"].to_pylist() == seqs

    def test_another_column(self) -> None:
        assert through(Match("m", "b|d", column="k"), batches=[NUMBERS])["seq"].to_pylist() == [1, 3]

    @pytest.mark.parametrize("pattern", ["(", "[a", r"(?=a)", 7])
    def test_a_pattern_is_a_regular_expression(self, pattern: Any) -> None:
        with pytest.raises(GraphError, match=r"Operator 'm': .* is not a regular expression \("):
            Match("m", pattern)

    @pytest.mark.parametrize(
        ("column", "message"),
        [
            ("text", "Operator 'm': column 'text' is wanted on port 'in'; it gets seq, k, v."),
            ("v", "Operator 'm': column 'v' must be string; it is int64."),
        ],
    )
    def test_the_column_is_text(self, column: str, message: str) -> None:
        with pytest.raises(GraphError) as refused:
            graph_of(Match("m", "x", column=column), batches=[NUMBERS]).checked()
        assert str(refused.value) == message


def counted(*lines: str | None, per_batch: int = 3) -> dict[str, int]:
    """Sum of the counts that come out of Words."""
    parts = [lines[at : at + per_batch] for at in range(0, len(lines), per_batch)]
    batches = [tuples(per_batch * i, line=pa.array(part, pa.string())) for i, part in enumerate(parts)]
    out = through(Words("w"), batches=batches)
    total: Counter[str] = Counter()
    for word, count in zip(out["word"].to_pylist(), out["count"].to_pylist(), strict=True):
        total[word] += count
    return dict(total)


EUROPEAN = st.characters(max_codepoint=0x4FF).filter(lambda c: len(c.lower()) == 1 and c != "Σ")


class TestWords:
    def test_words_are_runs_of_letters_and_digits_in_lower_case(self) -> None:
        assert counted("It was: the best—of 3 Times, it's THE_end", "", None, "  ,.!", "Ärger ärger ÄRGER 1st ½") == {
            "it": 2, "was": 1, "the": 2, "best": 1, "of": 1, "3": 1, "times": 1, "s": 1, "end": 1,
            "ärger": 3, "1st": 1, "½": 1,
        }  # fmt: skip

    # Letters for which Python and Arrow have the same tables; "İ" becomes two in lower case.
    @given(st.lists(st.none() | st.text("aB1 _-.\n", max_size=30) | st.text(EUROPEAN, max_size=20), min_size=1))
    def test_agrees_with_a_slow_twin(self, lines: list[str | None]) -> None:
        slowly = Counter(word for line in lines if line for word in re.findall(r"[^\W_]+", line.lower()))
        assert counted(*lines) == slowly

    def test_both_ways_of_splitting_agree(self) -> None:
        lines = [f"Word{i % 7}, and {i} more; the-end_of {'x' * (i % 5)}" for i in range(200)]
        with_others = [line + " é" for line in lines]
        plain = counted(*lines, per_batch=50)
        assert counted(*with_others, per_batch=50) == {**plain, "é": 200}

    def test_seq_is_that_of_the_last_line_with_the_word(self) -> None:
        out = through(Words("w"), batches=[tuples(5, line=["a b", "b", "c é a", "é"])])
        assert dict(zip(out["word"].to_pylist(), out["seq"].to_pylist(), strict=True)) == {
            "a": 7,
            "b": 6,
            "c": 7,
            "é": 8,
        }

    def test_a_slice_of_a_larger_array_is_read_from_its_own_beginning(self) -> None:
        lines = tuples(line=["one", "two", "three", "four é"]).slice(1, 2)
        out = through(Words("w"), batches=[lines])
        assert sorted(out["word"].to_pylist()) == ["three", "two"]

    def test_a_line_of_many_words(self) -> None:
        assert counted("a " * 5000) == {"a": 5000}

    def test_how_many_words_a_line_may_have_is_declared(self) -> None:
        assert Words("w", words_per_line_max=7).outputs_per_tuple_max == 7.0
        with pytest.raises(
            GraphError, match="Operator 'w': words_per_line_max must be a whole number, 1 or more; got 0"
        ):
            Words("w", words_per_line_max=0)


class TestSelect:
    @pytest.mark.parametrize("columns", [["v", "k"], ("v", "seq", "k", "v"), iter(["v", "k"])])
    def test_seq_always_stays(self, columns: Any) -> None:
        assert through(Select("s", columns), batches=[NUMBERS]).column_names[0] == "seq"

    def test_one_column_by_its_name(self) -> None:
        assert through(Select("s", "v"), batches=[NUMBERS]).column_names == ["seq", "v"]

    def test_a_column_that_is_not_there(self) -> None:
        with pytest.raises(GraphError) as refused:
            graph_of(Select("s", ["v", "w"]), batches=[NUMBERS]).checked()
        assert str(refused.value) == "Operator 's': column 'w' is wanted on port 'in'; it gets seq, k, v."


class TestApply:
    SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("double", pa.int64())])

    def apply(self, function: Callable[[pa.RecordBatch], Any]) -> pa.Table:
        return through(Apply("a", function, self.SCHEMA), batches=[NUMBERS])

    def test_any_function(self) -> None:
        def double(batch: pa.RecordBatch) -> pa.RecordBatch:
            return pa.RecordBatch.from_arrays(
                [batch["seq"], pa.array([v and 2 * v for v in batch["v"].to_pylist()])], schema=self.SCHEMA
            )

        assert self.apply(double)["double"].to_pylist() == [2, 40, 60, None]

    def test_whether_a_column_may_be_null_is_not_held_against_it(self) -> None:
        out = self.apply(lambda batch: pa.RecordBatch.from_pydict({"seq": batch["seq"], "double": batch["v"]}))
        assert out.schema == self.SCHEMA

    def test_nothing_out_of_something(self) -> None:
        assert self.apply(lambda batch: pa.RecordBatch.from_arrays([[], []], schema=self.SCHEMA)).num_rows == 0

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda batch: None, "Operator 'a': its function must return a record batch; got NoneType."),
            (
                lambda batch: pa.Table.from_batches([batch]),
                "Operator 'a': its function must return a record batch; got Table.",
            ),
            (
                lambda batch: batch,
                "Operator 'a' declared seq int64, double int64 and put out seq int64, k string, v int64.",
            ),
        ],
    )
    def test_a_function_that_does_not_keep_its_word(self, function: Callable[..., Any], message: str) -> None:
        with pytest.raises(InputError) as refused:
            self.apply(function)
        assert re.sub(" not null", "", str(refused.value)) == message


class TestUnion:
    def run(self, union: Operator, *streams: pa.RecordBatch) -> pa.Table:
        graph = Graph("g")
        inputs = [graph.source(f"s{i}", feed_of([stream])) for i, stream in enumerate(streams)]
        graph.sink("out", graph.add(union, *inputs), Memory())
        with LocalRun(graph) as run:
            run.run()
            return run.result("out")

    def test_all_streams_come_out(self) -> None:
        parts = [NUMBERS.slice(0, 1), NUMBERS.slice(1, 1), NUMBERS.slice(2)]
        assert sorted(self.run(Union("u", ports=3), *parts)["seq"].to_pylist()) == [0, 1, 2, 3]

    def test_streams_must_be_alike(self) -> None:
        with pytest.raises(GraphError) as refused:
            self.run(Union("u"), NUMBERS, tuples(k=["a"], v=[1.0]))
        assert str(refused.value) == (
            "Operator 'u': all inputs must be alike; port 'in1' gets seq int64 not null, k string, v double, "
            "port 'in0' gets seq int64 not null, k string, v int64."
        )

    @pytest.mark.parametrize("ports", [1, 0, -1, True, 2.0])
    def test_one_stream_is_no_union(self, ports: int) -> None:
        with pytest.raises(GraphError, match="Operator 'u': ports must be a whole number, 2 or more; got"):
            Union("u", ports=ports)


@pytest.mark.parametrize(
    "operator", [Where("o", field("v") > 0), Match("o", "a", column="k"), Select("o", ["v"]), Words("o", column="k")]
)
def test_no_tuples_in_no_tuples_out(operator: Operator) -> None:
    assert through(operator, batches=[NUMBERS.slice(0, 0)]).num_rows == 0
