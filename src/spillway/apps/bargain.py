"""Bargain Discovery (seed 000, section 6.1): quotes that ask for less than the stock has lately been traded at.

    Source -> TradeQuote -+-> TradeFilter -> Aggregator -> VWAP -+-> BargainIndex -> Sink
                          +-> QuoteFilter -----------------------+

A quote is a bargain if the volume-weighted average price of its symbol's five most recent trades is above the price
asked. What could be gained by buying is ask size times that difference; the score of an output is the sum of gains.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from spillway.apps.app import App, Option
from spillway.apps.ticks import OPTIONS, generate_ticks, read_ticks
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.latest import LatestJoin
from spillway.operators.sliding import SlidingAggregate, Summed
from spillway.operators.stateless import Apply, Select, Where, field

AVERAGES = pa.schema(
    [SEQ_FIELD, pa.field("symbol", pa.string(), nullable=False), pa.field("average", pa.float64(), nullable=False)]
)

BARGAINS = pa.schema(
    [SEQ_FIELD, pa.field("symbol", pa.string(), nullable=False), pa.field("gain", pa.float64(), nullable=False)]
)


def build(data: Any, *, protect: Protection | None, shards: int, sink: Sink, trades: int) -> Graph:
    """The eight operators of seed 000, figure 7, under its names."""
    graph = Graph("bargain", shards=shards)
    source = graph.source("Source", data)
    reduced = graph.add(Select("TradeQuote", ["symbol", "type", "price", "volume", "ask_price", "ask_size"]), source)
    traded = graph.add(Where("TradeFilter", field("type") == "trade"), reduced)
    quoted = graph.add(Where("QuoteFilter", field("type") == "quote"), reduced)
    sums: dict[str, Summed] = {"volume": "volume", "turnover": ("price", "volume")}
    recent = graph.add(SlidingAggregate("Aggregator", key="symbol", sums=sums, size=trades, protect=protect), traded)
    averages = graph.add(Apply("VWAP", average, AVERAGES), recent)
    index = LatestJoin("BargainIndex", key="symbol", value="average", then=gain, schema=BARGAINS, protect=protect)
    graph.sink("Sink", graph.add(index, averages, quoted), sink)
    return graph


def average(sums: pa.RecordBatch) -> pa.RecordBatch:
    """The average price of each window, weighted by volume; windows without volume have none."""
    volumes, turnovers = np.asarray(sums["volume"]), np.asarray(sums["turnover"])
    traded = volumes > 0
    if not traded.all():
        sums, volumes, turnovers = sums.filter(pa.array(traded)), volumes[traded], turnovers[traded]
    return pa.RecordBatch.from_arrays([sums["seq"], sums["symbol"], pa.array(turnovers / volumes)], schema=AVERAGES)


def gain(quotes: pa.RecordBatch) -> pa.RecordBatch:
    """What buying at the price asked would gain, for the quotes below their average."""
    gains = np.asarray(quotes["ask_size"]) * (np.asarray(quotes["average"]) - np.asarray(quotes["ask_price"]))
    chosen = np.flatnonzero(gains > 0)
    rows = pa.array(chosen)
    columns = [quotes["seq"].take(rows), quotes["symbol"].take(rows), pa.array(gains[chosen])]
    return pa.RecordBatch.from_arrays(columns, schema=BARGAINS)


APP = App(
    name="bargain",
    description="quotes below the average price of recent trades",
    graph=build,
    generated=generate_ticks,
    read=read_ticks,
    options=(Option(name="trades", default=5, meaning="how many recent trades are averaged", least=1, most=10_000),),
    generator_options=OPTIONS,
    short={"symbols": 30, "exponent": 0.5},
)
