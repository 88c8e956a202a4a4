"""Bargain Discovery against plain Python, and the market its input is made of."""

import os
from collections import defaultdict, deque
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spillway.apps import APPS
from spillway.apps.bargain import BARGAINS, average, gain
from spillway.apps.ticks import TICKS, market, market_time, seconds, walked
from spillway.errors import InputError
from spillway.graph import Generator, Memory, Nothing
from spillway.local import LocalRun

APP = APPS["bargain"]


def ticks(tuples: int, *, tuples_per_batch: int = 1_000) -> Generator:
    return APP.generator(seed=3, tuples=tuples, tuples_per_batch=tuples_per_batch)


def whole(feed: Generator) -> pa.Table:
    return pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)])


def naive(table: pa.Table, trades: int) -> list[tuple[int, str, float]]:
    """The application tuple by tuple."""
    recent: dict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=trades))
    found = []
    for row in table.to_pylist():
        symbol = row["symbol"]
        if row["type"] == "trade":
            recent[symbol].append((float(row["volume"]), row["price"] * row["volume"]))
        elif symbol in recent:
            volume = turnover = 0.0
            for one in recent[symbol]:
                volume, turnover = volume + one[0], turnover + one[1]
            profit = row["ask_size"] * (turnover / volume - row["ask_price"])
            if profit > 0:
                found.append((row["seq"], symbol, profit))
    return found


@pytest.mark.parametrize("trades", [5, 2])
def test_bargains_are_those_of_plain_python(trades: int) -> None:
    feed = ticks(6_000)
    graph = APP.build(feed, protect=Nothing(), trades=trades)
    with LocalRun(graph) as run:
        run.run()
        found = run.result("Sink").sort_by("seq")
    assert found.schema == BARGAINS
    wanted = naive(whole(feed), trades)
    assert len(wanted) > 500
    assert list(zip(*found.to_pydict().values(), strict=True)) == wanted


def test_the_graph_has_the_paper_s_operators() -> None:
    graph = APP.build(ticks(10), sink=Memory())
    assert list(graph.nodes) == [
        "Source", "TradeQuote", "TradeFilter", "QuoteFilter", "Aggregator", "VWAP", "BargainIndex", "Sink",
    ]  # fmt: skip
    assert [name for name, operator in graph.checked().operators.items() if operator.stateful] == [
        "Aggregator", "BargainIndex",
    ]  # fmt: skip


def test_a_window_without_volume_has_no_average() -> None:
    sums = pa.record_batch({"seq": [1, 2], "symbol": ["a", "b"], "volume": [0.0, 2.0], "turnover": [0.0, 6.0]})
    assert average(sums).to_pylist() == [{"seq": 2, "symbol": "b", "average": 3.0}]


def test_only_quotes_below_the_average_are_bargains() -> None:
    quotes = pa.record_batch(
        {
            "seq": [1, 2, 3],
            "symbol": ["a"] * 3,
            "ask_size": [10, 10, 10],
            "average": [5.0] * 3,
            "ask_price": [4.0, 5, 6],
        }
    )
    assert gain(quotes).to_pylist() == [{"seq": 1, "symbol": "a", "gain": 10.0}]


def test_ticks_have_the_paper_s_figures() -> None:
    """Seed 000, section 6.2: 80 % quotes, 500 a second on average, 2,200 at the peak, 3,099 symbols."""
    seqs = np.arange(1_000_000)
    times = seconds(3, seqs)
    assert (np.diff(times) >= 0).all()
    assert times[-1] == pytest.approx(2_000, abs=1)
    per_second = np.bincount(times.astype(np.int64))
    assert 2_190 <= per_second.max() <= 2_201
    table = whole(ticks(60_000, tuples_per_batch=20_000))
    quotes = np.asarray(table["type"].to_pandas() == "quote")
    assert quotes.mean() == pytest.approx(0.8, abs=0.01)
    counts = np.sort(table["symbol"].value_counts().field("counts").to_numpy())[::-1]
    assert counts[0] > 50 * counts[200]  # activity is skewed
    assert len(market(3, 3099)[0]) == len(set(market(3, 3099)[0].to_pylist())) == 3099


def test_a_tick_is_a_trade_or_a_quote() -> None:
    table = whole(ticks(2_000))
    assert table.schema == TICKS
    for row in table.to_pylist():
        used, unused = ("price", "volume"), ("ask_price", "ask_size")
        if row["type"] == "quote":
            used, unused = unused, used
        assert all(row[name] > 0 for name in used) and not any(row[name] for name in unused)


def test_ticks_do_not_depend_on_how_they_are_cut() -> None:
    assert ticks(1_000).read(1).equals(ticks(2_000).read(1))
    times = seconds(3, np.arange(1_000_000))
    assert np.array_equal(times[499_990:500_010], seconds(3, np.arange(499_990, 500_010)))


def test_prices_walk() -> None:
    """Displacements over a span of time have about its variance, whatever the span, and symbols walk apart."""
    symbols = np.arange(3_000)
    for start, span in ((0.0, 1_024.0), (5_000.0, 64.0), (16_000.0, 1_000.0)):
        moved = walked(1, symbols, np.full(3_000, start + span)) - walked(1, symbols, np.full(3_000, start))
        assert moved.std() == pytest.approx(np.sqrt(span), rel=0.1)
        assert abs(moved.mean()) < 5 * np.sqrt(span / 3_000)
        assert abs(np.corrcoef(moved[:-1], moved[1:])[0, 1]) < 0.1


def test_market_time_is_one_for_all_pieces() -> None:
    times = np.linspace(0, 5_000, 400)
    warped = market_time(1, times)
    assert (np.diff(warped) > 0).all()
    assert np.allclose(market_time(1, times[:10]), warped[:10])


def test_a_file_of_ticks_is_read_with_its_types_cast(tmp_path: Path) -> None:
    made = ticks(500)
    table = whole(made)
    stored = table.set_column(2, "symbol", table["symbol"].cast(pa.large_string()))
    stored = stored.set_column(1, "time", table["time"].cast(pa.timestamp("ns")))
    pq.write_table(stored, tmp_path / "ticks.parquet")
    feed = APP.reader(tmp_path / "ticks.parquet", tuples_per_batch=100)
    found = pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)])
    assert found.drop_columns(["time"]).equals(table.drop_columns(["time"]))
    with LocalRun(APP.build(feed, protect=Nothing())) as run:
        run.run()
        assert run.result("Sink").num_rows == len(naive(table, 5))
    quoted = pc.equal(table["type"], "quote")
    gaps = table.set_column(4, "price", pc.if_else(quoted, None, table["price"]))
    pq.write_table(gaps, tmp_path / "gaps.parquet")  # quotes have no price, which is as good as zero
    assert (
        APP.reader(tmp_path / "gaps.parquet", tuples_per_batch=1000).read(0).equals(table.slice(0, 500).to_batches()[0])
    )
    pq.write_table(table.set_column(4, "price", pa.nulls(500, pa.float64())), tmp_path / "null.parquet")
    with pytest.raises(InputError, match="a trade has no 'price'"):
        APP.reader(tmp_path / "null.parquet", tuples_per_batch=1000).read(0)
    pq.write_table(stored.drop_columns(["ask_size"]), tmp_path / "less.parquet")
    with pytest.raises(InputError, match="ask_size not found"):
        APP.reader(tmp_path / "less.parquet", tuples_per_batch=100)


@pytest.mark.skipif("SPILLWAY_REAL_DATA" not in os.environ, reason="no real data at hand")
def test_real_ticks() -> None:
    feed = APP.reader(Path(os.environ["SPILLWAY_REAL_DATA"]) / "ticks_taq.parquet", tuples_per_batch=50_000)
    with LocalRun(APP.build(feed, protect=Nothing())) as run:
        run.step()
        found = run.result("Sink")
    first = pa.Table.from_batches([feed.read(0), feed.read(1)])
    wanted = naive(first, 5)
    assert found.num_rows == len(wanted) > 100
    assert np.asarray(found["gain"]).sum() == pytest.approx(sum(row[2] for row in wanted))
