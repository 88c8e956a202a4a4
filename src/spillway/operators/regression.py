"""Online logistic regression on a shared-out stream: local models that learn, and a global one that is fed back.

Each shard learns from the tuples it happens to get by stochastic gradient descent, one tuple after the other in the
order of ``seq``. For label y in {0, 1}, features x and parameters w (seed 002, experiment 5),

    p = 1 / (1 + exp(-(w_bias + Σ w_f x_f)))        w_f += rate_t · ((y - p) · x_f - l2 · w_f)    for the f of the tuple

with rate_t = rate, or rate / sqrt(t) for the t-th tuple of the shard if ``decay`` is set. In the batch in which a
shard passes a multiple of ``every`` tuples it puts out the parameters it has changed since it last did. The global
model takes for each parameter the mean of the values that came, and sends those parameters, and no others, back to all
shards, which begin their next batch by adopting them.

How this differs from averaging whole models: a shard that has not touched a parameter since it adopted it has nothing
to say about it and is left out of its mean. With sparse features counting it in would slow learning by the number of
shards; where all shards touch a parameter the two are the same. A parameter that a shard has changed and not yet put
out when a global value arrives becomes the mean of the two.

The divergence is the Euclidean distance of the parameters; how many tuples a shard has learnt from, which only steers
the rate, is not measured. A gradient step on this convex loss does not move two models apart as long as
rate_t · (1 + Σ x_f²) is at most 8, so an error that a recovery leaves does not grow: ``Decaying`` is its window.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ
from spillway.graph.protections import Protection
from spillway.graph.windows import Decaying
from spillway.operators.operator import Operator, Out, columns
from spillway.state.compiled import compiled
from spillway.state.hashing import mix
from spillway.state.primitives import HashTable
from spillway.state.tally import Tally, TallyTable

__all__ = ["GlobalModel", "LocalModel"]

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

BIAS = -1
"""The parameter that every tuple has; features are numbered from 0."""

PROGRESS = columns(
    tuples=pa.int64(), correct=pa.int64(), log_loss=pa.float64(), tested=pa.int64(), tested_correct=pa.int64()
)
LOCAL_MODEL = columns(feature=pa.int64(), weight=pa.float64())
GLOBAL_MODEL = columns(feature=pa.int64(), weight=pa.float64())

_SEEN, _SENT = range(2)


class LocalModel(Operator):
    """A model that learns from its share of the tuples, and how well it predicted each before it learnt from it.

    Port ``out``, once per batch: how many ``tuples`` were learnt from, how many of them had been predicted correctly
    before, the sum of their log-losses; and, with ``learn_below``, how many tuples of a number at or above it were
    ``tested``, that is predicted and not learnt from, and how many of those correctly. Port ``model``: see above.
    """

    outputs = ("out", "model")
    feedback_inputs = ("global",)
    parameters = ("label", "features", "values", "rate", "decay", "l2", "learn_below")

    def __init__(
        self,
        name: str,
        *,
        shards: int,
        label: str = "label",
        features: str = "features",
        values: str = "values",
        rate: float = 0.1,
        decay: bool = False,
        l2: float = 0.0,
        every: int = 1000,
        learn_below: int | None = None,
        protect: Protection | None = None,
        window: Decaying | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, protect=protect, shards=shards, window=window, delay_max=delay_max)
        check_whole(f"Operator {name!r}: shards", shards, least=1)
        check_whole(f"Operator {name!r}: every", every, least=1)
        if not (math.isfinite(rate) and rate > 0):
            raise GraphError(f"Operator {name!r}: rate must be a number above zero; got {rate!r}.")
        if not (math.isfinite(l2) and 0 <= l2 * rate < 1):
            raise GraphError(f"Operator {name!r}: l2 must be zero or more and below 1 / rate; got {l2!r}.")
        self.label, self.features, self.values = label, features, values
        self.rate, self.decay, self.l2, self.every = rate, decay, l2, every
        self.learn_below = np.iinfo(np.int64).max if learn_below is None else learn_below
        self.weights = HashTable(key="int64", metric="l2", dtype="float64")
        self.counts = Tally(2)  # tuples learnt from, and how many it had been when the model was last put out
        # For parameters changed in a batch that put nothing out: the second count as it was then, plus one. Every
        # backup holds this table and the counts as of its own batch, and not all of the weights: a parameter recovered
        # as changed may have an older weight, which is put out as it is, within the distance that theta allows.
        self.changed = TallyTable(key="int64")
        self._learnt = np.empty(0, np.int64)  # parameters changed in this batch, and what they became
        self._weights = np.empty(0)
        self._scores = np.zeros(5)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **dict.fromkeys((self.label, self.features, self.values)))
        label, features, values = (inputs["in"].field(name).type for name in (self.label, self.features, self.values))
        if not (pa.types.is_boolean(label) or pa.types.is_integer(label)):
            raise GraphError(f"Operator {self.name!r}: column {self.label!r} must be 0 or 1; it is {label}.")
        if features != pa.list_(pa.int64()):
            raise GraphError(
                f"Operator {self.name!r}: column {self.features!r} must be lists of int64; it is {features}."
            )
        if values not in (pa.list_(pa.float64()), pa.list_(pa.float32())):
            raise GraphError(
                f"Operator {self.name!r}: column {self.values!r} must be lists of float or double; it is {values}."
            )
        return {"out": PROGRESS, "model": LOCAL_MODEL}

    def reads(self, port: str) -> frozenset[str]:
        return self.placed_by | {self.label, self.features, self.values}

    def begin(self) -> None:
        self._learnt, self._weights = np.empty(0, np.int64), np.empty(0)
        self._scores = np.zeros(5)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if port == "global":
            self._adopt(np.asarray(batch["feature"]), np.asarray(batch["weight"]))
        else:
            self._learn(batch)
        return iter(())

    def finish(self) -> Iterator[Out]:
        tuples, correct, log_loss, tested, tested_correct = self._scores.tolist()
        if tuples or tested:
            yield self.out(
                tuples=int(tuples),
                correct=int(correct),
                log_loss=log_loss,
                tested=int(tested),
                tested_correct=int(tested_correct),
            )
        seen, sent = self.counts.read().tolist()
        if seen // self.every == sent // self.every:
            self.changed.set(self._learnt, sent + 1)
            return
        unsent = self._unsent(sent)
        if unsent.size:
            unsent = np.setdiff1d(unsent, self._learnt)
        self.counts.set(np.array([_SENT]), seen)
        features = np.concatenate([self._learnt, unsent])
        yield self.out("model", feature=features, weight=np.concatenate([self._weights, self.weights.get(unsent)]))

    def _unsent(self, sent: int) -> Int64s:
        """Parameters changed in earlier batches, since the model was last put out."""
        features, changed = self.changed.items()
        unsent: Int64s = np.asarray(features)[changed == sent + 1]
        return unsent

    def _adopt(self, features: Int64s, weights: Float64s) -> None:
        """Take over global values."""
        unsent = self.changed.get(features) == self.counts.read()[_SENT] + 1
        if unsent.any():
            weights = np.where(unsent, (weights + self.weights.get(features)) / 2, weights)
        self.weights.set(features, weights)

    def _learn(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        labels, features, values, offsets = self._arrays(batch)
        distinct, numbers = numbered(features)
        distinct = np.append(distinct, BIAS)
        weights = self.weights.get(distinct)
        seqs, seen = np.asarray(batch[SEQ]), int(self.counts.read()[_SEEN])
        scores = np.zeros(5)
        learn(
            weights, labels, offsets, numbers, values, seqs,
            self.learn_below, self.rate, self.decay, self.l2, seen, scores,
        )  # fmt: skip
        self._scores += scores
        if scores[0]:
            self.weights.set(distinct, weights)
            self.counts.set(np.array([_SEEN]), seen + int(scores[0]))
            self._learnt, self._weights = distinct, weights

    def _arrays(self, batch: pa.RecordBatch) -> tuple[Float64s, Int64s, Float64s, Int64s]:
        """Labels, features and values of all tuples one after the other, and where those of each tuple begin."""
        for name in (self.label, self.features, self.values):
            column = batch[name]
            inner = column.flatten().null_count if pa.types.is_list(column.type) else 0
            if column.null_count or inner:
                raise InputError(f"Operator {self.name!r}: column {name!r} must not be null, nor hold nulls.")
        labels = np.asarray(batch[self.label].cast(pa.float64()))
        features, values = batch[self.features], batch[self.values]
        offsets = np.asarray(features.offsets).astype(np.int64)
        lengths = np.asarray(values.offsets)
        if not np.array_equal(offsets - offsets[0], lengths - lengths[0]):
            raise InputError(
                f"Operator {self.name!r}: columns {self.features!r} and {self.values!r} must have lists of one length."
            )
        numbers = np.asarray(features.flatten())
        if numbers.size and numbers.min() < 0:
            raise InputError(f"Operator {self.name!r}: features are numbered from 0; the least is {numbers.min()}.")
        if ((labels != 0) & (labels != 1)).any():
            raise InputError(f"Operator {self.name!r}: column {self.label!r} must be 0 or 1 in every tuple.")
        amounts = np.asarray(values.flatten().cast(pa.float64()))
        if not np.isfinite(amounts).all():
            raise InputError(f"Operator {self.name!r}: column {self.values!r} must hold finite numbers.")
        return labels, numbers, amounts, offsets - offsets[0]


class GlobalModel(Operator):
    """The mean of the local models, parameter by parameter; what changed in a batch is put out as feedback.

    After a recovery it is put out whole, once: feedback may have been lost with the memory, and shards may have gone
    back to parameters that no one would mention again.
    """

    outputs = ("model",)
    schema = GLOBAL_MODEL

    def __init__(
        self,
        name: str,
        *,
        protect: Protection | None = None,
        window: Decaying | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, protect=protect, window=window, delay_max=delay_max)
        self.weights = HashTable(key="int64", metric="l2", dtype="float64")
        self.whole = Tally(1)  # 1 if all parameters are to be put out

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", feature=pa.int64(), weight=pa.float64())
        return super().output_schemas(inputs)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        features, weights = np.asarray(batch["feature"]), np.asarray(batch["weight"])
        if not features.size:
            return
        distinct, numbers = numbered(features)
        means = np.bincount(numbers, weights=weights) / np.bincount(numbers)
        self.weights.set(distinct, means)
        if self.whole.read()[0]:
            self.whole.set(np.zeros(1, np.int64), 0)
            distinct, means = self.weights.items()
        yield self.out("model", feature=distinct, weight=means)

    def recovered(self, loss: Loss) -> None:
        self.whole.set(np.zeros(1, np.int64), 1)


def numbered(features: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct features as they come, and for each feature which of them it is.

    >>> numbered(np.array([7, 3, 7]))
    (array([7, 3]), array([0, 1, 0]))
    """
    distinct, numbers = np.empty_like(features), np.empty_like(features)
    # Features repeat, so the index is at first smaller than it may have to be: one that fits the cache is much faster.
    slots = max(16, features.size // 4)
    while True:
        index = np.zeros(1 << slots.bit_length(), np.int32)
        count = number(features, index, distinct, numbers)
        if count >= 0:
            return distinct[:count], numbers
        slots *= 4


@compiled
def number(features: Any, index: Any, distinct: Any, numbers: Any) -> int:
    """How many distinct features there are, each with a number; -1 if the empty index is too small for them."""
    mask = np.uint64(index.size - 1)
    count = 0
    for i in range(features.size):
        slot = mix(features[i]) & mask
        while index[slot] != 0 and distinct[index[slot] - 1] != features[i]:
            slot = (slot + np.uint64(1)) & mask
        if index[slot] == 0:
            if 4 * count >= 3 * index.size:
                return -1
            distinct[count] = features[i]
            count += 1
            index[slot] = count
        numbers[i] = index[slot] - 1
    return count


@compiled
def learn(
    weights: Any,  # of the distinct features of these tuples, that of the bias last
    labels: Any,
    offsets: Any,
    numbers: Any,  # which of the weights each value belongs to
    values: Any,
    seqs: Any,
    learn_below: int,
    rate: float,
    decay: bool,
    l2: float,
    seen: int,
    scores: Any,  # learnt from, predicted correctly before, sum of log-losses; tested, correctly
) -> None:
    """One pass of gradient descent over the tuples, in their order, each predicted before it is learnt from."""
    bias = weights.size - 1
    for i in range(labels.size):
        margin = weights[bias]
        for j in range(offsets[i], offsets[i + 1]):
            margin += weights[numbers[j]] * values[j]
        correct = (margin >= 0.0) == (labels[i] == 1.0)
        if seqs[i] >= learn_below:
            scores[3] += 1
            scores[4] += correct
            continue
        away = math.exp(-abs(margin))  # never overflows
        scores[0] += 1
        scores[1] += correct
        scores[2] += math.log1p(away) + max(margin, 0.0) - labels[i] * margin
        predicted = 1.0 / (1.0 + away) if margin >= 0.0 else away / (1.0 + away)
        seen += 1
        step = rate / math.sqrt(seen) if decay else rate
        pull = step * (labels[i] - predicted)
        weights[bias] += pull
        for j in range(offsets[i], offsets[i + 1]):
            k = numbers[j]
            weights[k] += pull * values[j] - step * l2 * weights[k]
