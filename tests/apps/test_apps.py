"""The applications give the truth, or an answer as near to it as they promise."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.running import running

import spillway as sw
from spillway.apps import APPS, Option, flows, wordcount
from spillway.errors import GraphError
from spillway.graph import Feed, Graph, Protection

PHI = 100_000
WIPED = (2, 5, 6)


def run(graph: Graph, *, wipe_before: tuple[int, ...] = ()) -> pa.Table:
    with running(graph) as local:
        while True:
            if local.batch in wipe_before:
                local.wipe()
            if not local.step():
                return local.result("out")


def lines(**options: Any) -> Feed:
    return APPS["wordcount"].generator(**{"seed": 11, "tuples": 4_000, "tuples_per_batch": 500, **options})


def packets(seed: int = 11, **options: Any) -> Feed:
    given = {"tuples": 20_000, "tuples_per_batch": 2_500, "flows": 3_000, "heavy": 12, "exponent": 0.9, **options}
    return APPS["flows"].generator(seed=seed, **given)


class TestGrep:
    @pytest.mark.parametrize("pattern", ["ba", r"\bb[aeiou]\b", "^ba.*ba$", "nowhere"])
    def test_lines_that_match(self, pattern: str) -> None:
        feed = lines()
        out = run(APPS["grep"].build(feed, pattern=pattern, protect=sw.Approximate(10.0)), wipe_before=WIPED)
        wanted = [
            row["seq"]
            for piece in range(feed.pieces)
            for row in feed.read(piece).to_pylist()
            if re.search(pattern, row["line"])
        ]
        assert out["seq"].to_pylist() == wanted

    def test_a_pattern_that_is_none(self) -> None:
        with pytest.raises(GraphError, match=r"Operator 'matches': '\(' is not a regular expression"):
            APPS["grep"].build(lines(), pattern="(")


class TestWordcount:
    @pytest.mark.parametrize("shards", [1, 3])
    @pytest.mark.parametrize("words_per_line", [1, 10])
    def test_counts_are_the_truth(self, shards: int, words_per_line: int) -> None:
        feed = lines(words_per_line=words_per_line)
        out = run(APPS["wordcount"].build(feed, shards=shards))
        counts, exact = wordcount.latest_counts(out), wordcount.exact_counts(feed)
        assert wordcount.error_max(counts, exact) == 0
        assert sum(exact["count"].to_pylist()) == 4_000 * words_per_line

    @pytest.mark.parametrize("protect", [None, sw.Exact(), sw.Approximate(0.0)])
    def test_exact_counts_stay_the_truth(self, protect: Protection | None) -> None:
        feed = lines()
        out = run(APPS["wordcount"].build(feed, protect=protect), wipe_before=WIPED)
        assert wordcount.error_max(wordcount.latest_counts(out), wordcount.exact_counts(feed)) == 0

    @pytest.mark.parametrize(("theta", "loses"), [(1.0, False), (20.0, False), (300.0, True), (3000.0, True)])
    def test_approximate_counts_stay_within_theta(self, theta: float, loses: bool) -> None:
        feed = lines()
        out = run(APPS["wordcount"].build(feed, protect=sw.Approximate(theta)), wipe_before=WIPED)
        error = wordcount.error_max(wordcount.latest_counts(out), wordcount.exact_counts(feed))
        assert error <= theta
        # Where batches are small beside theta something must be lost, or the bound would prove nothing.
        assert error > 0 or not loses

    def test_the_truth_is_that_of_the_pieces_asked_for(self) -> None:
        feed = lines()
        assert sum(wordcount.exact_counts(feed, pieces=1)["count"].to_pylist()) == 250 * 10
        assert wordcount.exact_counts(feed, pieces=0).num_rows == 0

    def test_errors_count_words_that_are_missing_on_either_side(self) -> None:
        def of(**counts: int) -> pa.Table:
            return pa.table({"word": list(counts), "count": pa.array(counts.values(), pa.int64())}, wordcount.COUNTS)

        assert wordcount.error_max(of(a=5, b=1), of(a=5, b=1)) == 0
        assert wordcount.error_max(of(a=5), of(a=5, b=4)) == 4
        assert wordcount.error_max(of(a=5, c=7), of(a=2)) == 7
        assert wordcount.error_max(of(), of()) == 0


class TestFlows:
    def test_the_truth_is_a_sum_per_pair(self) -> None:
        feed = packets(tuples=3_000)
        slow: dict[tuple[str, str], int] = {}
        for piece in range(feed.pieces):
            for row in feed.read(piece).to_pylist():
                slow[row["src"], row["dst"]] = slow.get((row["src"], row["dst"]), 0) + row["bytes"]
        exact = flows.exact_bytes(feed).to_pylist()
        assert {(row["src"], row["dst"]): row["bytes"] for row in exact} == slow
        assert flows.exact_bytes(feed, pieces=0).num_rows == 0
        first = feed.read(0)["bytes"].to_numpy().sum()
        assert flows.exact_bytes(feed, pieces=1)["bytes"].to_numpy().sum() == first

    @pytest.mark.parametrize("shards", [1, 3])
    def test_heavy_flows_are_found(self, shards: int) -> None:
        feed = packets()
        out = run(APPS["flows"].build(feed, phi=PHI, shards=shards))
        found = flows.score(out, flows.exact_bytes(feed), phi=PHI)
        assert found.recall == 1.0 and found.too_low_bytes_max == 0
        assert found.actual >= 12
        assert found.precision == 1.0  # 3,000 flows in 4 rows of 8,192: hardly a collision in all rows

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize(("rows", "width"), [(4, 8192), (2, 512)])
    def test_none_is_missed_though_memory_is_lost_three_times(self, seed: int, rows: int, width: int) -> None:
        feed, theta, shards = packets(seed), 50_000.0, 2
        graph = APPS["flows"].build(feed, phi=PHI, rows=rows, width=width, shards=shards, protect=sw.Approximate(theta))
        exact = flows.exact_bytes(feed)
        found = flows.score(run(graph, wipe_before=WIPED), exact, phi=PHI)
        assert found.recall == 1.0, f"seed {seed}: {found}"
        assert found.too_low_bytes_max == 0, f"seed {seed}: {found}"
        # Theorem 1 of appendix A.1: a flow below this is reported with probability 2^-rows at most.
        surely_light = PHI - 2 * sum(exact["bytes"].to_pylist()) / width - theta
        true = exact["bytes"].to_numpy()
        light, between = int((true < surely_light).sum()), int(((surely_light <= true) & (true < PHI)).sum())
        unlucky = light / 2**rows
        assert found.reported - found.actual <= between + unlucky + 5 * np.sqrt(unlucky), f"seed {seed}: {found}"

    def test_without_compensation_flows_are_missed(self) -> None:
        """The counterpart: what the bound is worth."""
        feed = packets()
        out = run(APPS["flows"].build(feed, phi=PHI, protect=sw.Nothing()), wipe_before=WIPED)
        assert flows.score(out, flows.exact_bytes(feed), phi=PHI).recall < 1.0

    def test_scores(self) -> None:
        def of(**sums: int) -> pa.Table:
            hosts = pa.array(sums, pa.string())
            return pa.table({"src": hosts, "dst": hosts, "bytes": pa.array(sums.values(), pa.int64())})

        exact = of(a=100, b=90, c=10, d=120)
        reported = pa.concat_tables([of(a=95), of(c=99), of(a=101, b=88)])
        assert flows.score(reported, exact, phi=90) == flows.Detection(
            actual=3, reported=3, precision=2 / 3, recall=2 / 3, too_low_bytes_max=2, too_high_bytes_max=89
        )
        assert flows.score(of(), exact, phi=90) == flows.Detection(
            actual=3, reported=0, precision=1.0, recall=0.0, too_low_bytes_max=0, too_high_bytes_max=0
        )
        assert flows.score(of(), of(), phi=90).recall == 1.0


class TestTheRegistry:
    def test_names(self) -> None:
        assert list(APPS) == ["grep", "wordcount", "flows", "hitters", "join", "lr", "bargain", "ecg", "vitals", "fab"]
        assert all(app.name == name and "\n" not in app.description for name, app in APPS.items())
        with pytest.raises(TypeError):
            APPS["more"] = APPS["grep"]  # type: ignore[index]

    @pytest.mark.parametrize("name", APPS)
    def test_graphs_are_well_formed_by_default(self, name: str) -> None:
        graph = APPS[name].build(APPS[name].generator(seed=1, tuples=10, tuples_per_batch=10))
        checked = graph.checked()
        assert (graph.name, checked.shards) == (name, 2)
        (leaving,) = checked.exits.values()
        assert leaving.sink == sw.Memory()

    def test_sink_shards_and_protection_are_as_given(self) -> None:
        protect = sw.Checkpoint(50)
        graph = APPS["flows"].build(packets(), protect=protect, shards=5, sink=sw.Discard(), rows=3, width=100)
        checked = graph.checked()
        sketch = checked.operators["sketch"]
        assert (sketch.protect, checked.shards_of("sketch")) == (protect, 5)
        assert checked.exits["out"].sink == sw.Discard()
        assert sketch.describe_state() == "sketch Matrix(3x100,int64,max)"

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda: APPS["flows"].build(packets(), ph=1),
                "App 'flows' has no option 'ph' here; it has phi, rows, width.",
            ),
            (
                lambda: APPS["wordcount"].build(lines(), phi=1),
                "App 'wordcount' has no option 'phi' here; it has none.",
            ),
            (
                lambda: APPS["grep"].generator(seed=1, tuples=1, tuples_per_batch=1, pattern="x"),
                "App 'grep' has no option 'pattern' here; it has vocabulary, words_per_line, exponent.",
            ),
            (
                lambda: APPS["flows"].build(packets(), phi=0),
                "Option 'phi' must be a whole number, 1 or more; got 0.",
            ),
            (
                lambda: APPS["flows"].build(packets(), phi=1e7),
                "Option 'phi' must be a whole number, 1 or more; got 10000000.0.",
            ),
            (
                lambda: APPS["flows"].build(packets(), rows=True),
                "Option 'rows' must be a whole number between 1 and 64; got True.",
            ),
            (lambda: APPS["grep"].build(lines(), pattern=7), "Option 'pattern' must be text; got 7."),
            (
                lambda: packets(heavy_share=float("nan")),
                "Option 'heavy_share' must be a number between 0 and 1; got nan.",
            ),
            (
                lambda: APPS["flows"].build(packets(), shards=0),
                "Graph 'flows': shards must be a whole number, 1 or more; got 0.",
            ),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, call: Callable[[], object], message: str) -> None:
        with pytest.raises(GraphError) as refused:
            call()
        assert str(refused.value) == message


class TestOptions:
    PHI = Option(name="phi", default=10, meaning="", least=1)
    SHARE = Option(name="share", default=0.5, meaning="", least=0, most=1)
    PATTERN = Option(name="pattern", default="x", meaning="")

    @pytest.mark.parametrize(
        ("option", "text", "value"),
        [
            (PHI, "25", 25),
            (PHI, "1e6", 1_000_000),
            (SHARE, "0.25", 0.25),
            (SHARE, "1", 1.0),
            (PATTERN, "1", "1"),
            (PATTERN, "", ""),
        ],
    )
    def test_a_command_line_gives_text(self, option: Option, text: str, value: object) -> None:
        assert option.checked(option.parse(text)) == value

    @pytest.mark.parametrize(
        ("option", "text", "message"),
        [
            (PHI, "many", "Option 'phi' must be a whole number, 1 or more; got 'many'."),
            (PHI, "2.5", "Option 'phi' must be a whole number, 1 or more; got 2.5."),
            (PHI, "inf", "Option 'phi' must be a whole number, 1 or more; got inf."),
            (SHARE, "", "Option 'share' must be a number between 0 and 1; got ''."),
            (SHARE, "1.5", "Option 'share' must be a number between 0 and 1; got 1.5."),
            (SHARE, "nan", "Option 'share' must be a number between 0 and 1; got nan."),
        ],
    )
    def test_text_that_makes_no_sense_is_refused(self, option: Option, text: str, message: str) -> None:
        with pytest.raises(GraphError) as refused:
            option.checked(option.parse(text))
        assert str(refused.value) == message

    @pytest.mark.parametrize("name", APPS)
    def test_every_default_is_allowed(self, name: str) -> None:
        for option in (*APPS[name].options, *APPS[name].generator_options):
            assert option.checked(option.default) == option.default
            assert option.meaning
