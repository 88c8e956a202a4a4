"""Predicting clicks: online logistic regression over a shared-out stream (seed 002, experiment 5).

A tuple has a label, 0 or 1, and a sparse vector: the numbers of the features it has, and their values. The first
``train`` tuples are learnt from, each predicted before; the rest is the test set and only predicted. Their share of
correct predictions is the paper's prediction rate.

A generated tuple has one feature out of each of ``fields`` groups (an advertiser, a query, a user …), whose frequency
falls with its rank. The truth is a weight for every feature, normal, and smaller the rarer the feature is, so that what
can be learnt is worth learning; the label says whether the sum of a tuple's weights is above zero.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.apps.app import App, Option
from spillway.apps.making import Pieces, heavy_tailed
from spillway.apps.reading import Files
from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ_FIELD, Feed, Generator, Trace
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.regression import GlobalModel, LocalModel
from spillway.seeds import generator

CLICKS = pa.schema(
    [
        SEQ_FIELD,
        pa.field("label", pa.int8(), nullable=False),
        pa.field("features", pa.list_(pa.int64()), nullable=False),
        pa.field("values", pa.list_(pa.float32()), nullable=False),
    ]
)


def build(
    data: Any,
    *,
    protect: Protection | None,
    shards: int,
    sink: Sink,
    train: int,
    learning_rate: float,
    l2: float,
    every: int,
) -> Graph:
    """tuples -> local models, and how well they predict -> out; local models -> the global one -> back to them."""
    graph = Graph("lr", shards=shards)
    local = LocalModel(
        "local",
        shards=shards,
        rate=learning_rate,
        decay=True,
        l2=l2,
        every=every,
        learn_below=train or None,
        protect=protect,
    )
    progress = graph.add(local, graph.source("tuples", data))
    model = graph.add(GlobalModel("global", protect=protect), graph.output(local, "model"))
    # Feedback that is lost with the memory costs one batch of coming together, and going on learning makes up for it.
    # Where nothing at all may be lost it must be durable, which costs a write per batch.
    durable = protect is None or protect.loses_nothing
    graph.connect(model, "local", "global", feedback=True, durable=durable)
    graph.sink("out", progress, sink)
    return graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Clicks:
    """One piece of generated tuples: a function of its number."""

    seed: int
    cut: Pieces
    features: int
    fields: int
    exponent: float
    importance: float

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        random = generator(self.seed, "clicks", piece)
        shape = (len(seqs), self.fields)
        ranks = heavy_tailed(
            random, len(seqs) * self.fields, ranks=self.features // self.fields, exponent=self.exponent
        )
        # Feature numbers go round the fields, the most frequent of each first.
        features = ranks.reshape(shape) * self.fields + np.arange(self.fields)
        truth = true_weights(self.seed, self.features, self.fields, self.importance)
        labels = (truth[features].sum(axis=1) > 0).astype(np.int8)
        ends = pa.array(np.arange(0, features.size + 1, self.fields, dtype=np.int32))
        columns = [
            seqs,
            pa.array(labels),
            pa.ListArray.from_arrays(ends, pa.array(features.ravel())),
            pa.ListArray.from_arrays(ends, pa.array(np.ones(features.size, np.float32))),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=CLICKS)


@lru_cache(maxsize=2)
def true_weights(seed: int, features: int, fields: int, importance: float) -> npt.NDArray[np.float64]:
    """The weight of every feature, by its number."""
    weights = generator(seed, "weights").normal(size=features)
    weights /= (1.0 + np.arange(features) // fields) ** importance
    weights.flags.writeable = False
    return weights


def generate_clicks(
    *,
    seed: int,
    tuples: int,
    tuples_per_batch: int,
    pieces_per_batch: int,
    features: int,
    fields: int,
    exponent: float,
    importance: float,
) -> Generator:
    """Tuples with sparse features and a label that follows from them."""
    if fields > features:
        raise GraphError(f"Clicks: {fields} fields want at least as many features; got {features}.")
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    clicks = Clicks(seed=seed, cut=cut, features=features, fields=fields, exponent=exponent, importance=importance)
    return Generator(make=clicks, schema=CLICKS, pieces=cut.count, pieces_per_batch=pieces_per_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ones:
    """A feed of labels and features in which every value is 1."""

    files: Files
    schema: pa.Schema = CLICKS

    @property
    def pieces(self) -> int:
        return self.files.pieces

    @property
    def pieces_per_batch(self) -> int:
        return self.files.pieces_per_batch

    def read(self, piece: int) -> pa.RecordBatch:
        batch = self.files.read(piece)
        features = batch["features"]
        ones = pa.array(np.ones(len(features.flatten()), np.float32))
        ends = pa.array((np.asarray(features.offsets) - features.offsets[0].as_py()).astype(np.int32))
        values = pa.ListArray.from_arrays(ends, ones)
        return pa.RecordBatch.from_arrays([*batch.columns, values], schema=CLICKS)


def read_clicks(path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int) -> Feed:
    """Tables in Parquet or Arrow: ``label`` (0 or 1), ``features`` (lists of whole numbers from 0 on) and ``values``.

    ``values`` are lists of numbers as long as those of ``features``; without that column every value is 1.
    """
    trace = Trace(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    schema = trace.schema
    for name, fits, wanted in (
        ("label", _is_label, "0 or 1"),
        ("features", _is_numbers, "lists of integers"),
        ("values", _is_amounts, "lists of floats"),
    ):
        if name in schema.names and not fits(schema.field(name).type):
            raise InputError(f"{path}: column {name!r} must be {wanted}; it is {schema.field(name).type}.")
        if name not in schema.names and name != "values":
            raise InputError(f"{path}: a column {name!r} is wanted; there are {', '.join(schema.names)}.")
    names = [name for name in ("label", "features", "values") if name in schema.names]
    fields = [SEQ_FIELD, *(CLICKS.field(name) for name in names)]
    files = Files(
        trace=replace(trace, columns=names), schema=pa.schema(fields), names=tuple((name, name) for name in names)
    )
    return files if "values" in names else _Ones(files=files)


def _is_label(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_numbers(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_integer(kind.value_type))


def _is_amounts(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_floating(kind.value_type))


APP = App(
    name="lr",
    description="which tuples are clicked, learnt as they come",
    graph=build,
    generated=generate_clicks,
    read=read_clicks,
    options=(
        Option(name="train", default=0, meaning="tuples to learn from, the rest being a test set; 0 for all", least=0),
        Option(
            name="learning_rate",
            default=4.0,
            meaning="the first step; the t-th is 1/sqrt(t) of it",
            least=1e-9,
            most=1e3,
        ),
        Option(name="l2", default=0.0, meaning="how strongly parameters are pulled to zero", least=0, most=1),
        Option(name="every", default=1_000, meaning="tuples of a shard after which its model is put out", least=1),
    ),
    generator_options=(
        Option(name="features", default=1_000_000, meaning="how many features there are", least=1, most=10**8),
        Option(name="fields", default=10, meaning="how many of them a tuple has", least=1, most=1000),
        Option(name="exponent", default=1.1, meaning="how steeply frequency falls with rank", least=0, most=10),
        Option(name="importance", default=0.4, meaning="how steeply true weights fall with rank", least=0, most=10),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """How many labels were predicted correctly."""

    learnt: int  # tuples learnt from
    learnt_rate: float  # part of them predicted correctly before; 1 if there are none
    log_loss: float  # their mean log-loss
    tested: int  # tuples of the test set
    tested_rate: float  # part of them predicted correctly: the prediction rate; 1 if there are none

    @property
    def rate(self) -> float:
        """The prediction rate: of the test set if there is one."""
        return self.tested_rate if self.tested else self.learnt_rate


def score(out: pa.Table, *, after_seq: int = -1) -> Predictions:
    """What the application put out, of batches that end after ``after_seq``."""
    late = out.filter(pa.array(out["seq"].to_numpy() > after_seq))
    tuples, correct, log_loss, tested, tested_correct = (
        late[name].to_numpy().sum() for name in ("tuples", "correct", "log_loss", "tested", "tested_correct")
    )
    return Predictions(
        learnt=int(tuples),
        learnt_rate=float(correct / tuples) if tuples else 1.0,
        log_loss=float(log_loss / tuples) if tuples else 0.0,
        tested=int(tested),
        tested_rate=float(tested_correct / tested) if tested else 1.0,
    )
