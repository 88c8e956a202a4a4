"""Online linear regression: a model of a number that is built tuple by tuple, from sums that fade.

For features x_1 … x_d and target y let v = (1, x_1, …, x_d, y). What is kept is

    M = Σ_t λ^(n-t) v_t v_t'        of the n tuples so far, λ being ``forgetting``

which holds, as sums, the number of tuples, all means, all variances and all covariances. With ``every`` such tuples the
parameters are worked out anew: those that minimise

    Σ_t λ^(n-t) (y_t - w_0 - Σ w_i x_ti)² + ridge · Σ (w_i s_i)²        s_i: standard deviation of feature i

by Cholesky's method in standardised features. A feature that has not varied, or that follows from those before it, gets
no weight. Between two fits parameters stay as they are, so that what is put out follows from the tuples alone, however
they are cut into batches.

Why sums, and not the parameters with their inverse covariance (recursive least squares): an error that a recovery
leaves in a fading sum fades with it, one in the inverse may grow without end; and no memory at all is M = 0.

Features that are missing, null or NaN, count as their mean so far. In a prediction a value counts as no further from
its mean than ``FAR`` standard deviations: a sensor that had hardly moved and then jumps would otherwise carry any
prediction away with it. It is learnt from as it is. Each tuple is predicted before it is learnt from; until the first
fit the mean of the target is the prediction, and the very first tuple has none. Feature values far larger than they
vary cost digits: variances are differences of sums.

The divergence is the largest difference of one number of M. The parameters follow from M and are not measured; a backup
holds them as they were when it was made. Sums of a damaged backup may be of different times; the next fit makes of them
what it can, and they fade.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.graph.windows import Decaying
from spillway.operators.keyed import want_number
from spillway.operators.operator import Operator, Out
from spillway.state.compiled import compiled
from spillway.state.primitives import Vector
from spillway.state.tally import Tally

__all__ = ["LeastSquares"]

FEATURES_MAX = 2_000
"""The sums take half the square of it, and a fit a sixth of its cube."""

FAR = 5.0
"""How many standard deviations from its mean a value counts in a prediction, at most."""

Float64s = npt.NDArray[np.float64]


class LeastSquares(Operator):
    """Each tuple's target predicted from its features, then learnt from: see above.

    Puts out the columns of ``keep``, ``predicted``, ``actual`` and ``error``, which is predicted - actual.
    """

    parameters = ("features", "target", "forgetting", "ridge", "every")

    def __init__(
        self,
        name: str,
        *,
        features: Iterable[str],
        target: str,
        keep: Iterable[str] = (),
        forgetting: float = 1.0,
        ridge: float = 1.0,
        every: int = 1,
        protect: Protection | None = None,
        window: Decaying | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, protect=protect, window=window, delay_max=delay_max)
        self.features, self.target, self.keep = tuple(features), target, tuple(keep)
        if not 0 < len(self.features) <= FEATURES_MAX:
            raise GraphError(
                f"Operator {name!r}: between 1 and {FEATURES_MAX:,} features are wanted; got {len(self.features)}."
            )
        if not (math.isfinite(forgetting) and 0 < forgetting <= 1):
            raise GraphError(f"Operator {name!r}: forgetting must be above 0 and at most 1; got {forgetting!r}.")
        if not (math.isfinite(ridge) and ridge > 0):
            raise GraphError(f"Operator {name!r}: ridge must be a number above zero; got {ridge!r}.")
        check_whole(f"Operator {name!r}: every", every, least=1)
        self.forgetting, self.ridge, self.every = forgetting, ridge, every
        size = len(self.features) + 2
        self.moments = Vector(size * (size + 1) // 2, metric="max")  # M, its lower triangle row by row
        # How many tuples were learnt from, and the bits of the parameters, the constant one first.
        self.fitted = Tally(size)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        for column in (*self.features, self.target):
            want_number(self, inputs, "in", column)
        self.want(inputs, "in", **dict.fromkeys(self.keep))
        kept = [inputs["in"].field(name) for name in self.keep]
        found = [pa.field(name, pa.float64(), nullable=False) for name in ("predicted", "actual", "error")]
        return {"out": pa.schema([SEQ_FIELD, *kept, *found])}

    def reads(self, port: str) -> frozenset[str]:
        return frozenset([*self.features, self.target, *self.keep])

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        targets = _numbers(batch[self.target])
        if not np.isfinite(targets).all():
            raise InputError(
                f"Operator {self.name!r}: column {self.target!r} must be a finite number; it is not at seq "
                f"{batch[SEQ][int(np.argmin(np.isfinite(targets)))].as_py()}. Drop such tuples first."
            )
        values = np.column_stack([_numbers(batch[column]) for column in self.features])
        if np.isinf(values).any():
            raise InputError(f"Operator {self.name!r}: features must be finite numbers or missing.")
        moments, fitted = self.moments.read().copy(), self.fitted.read().copy()
        predicted = np.empty(batch.num_rows)
        fitted[0] = _learn(
            moments, fitted[1:].view(np.float64), values, targets, self.forgetting, self.ridge, self.every,
            int(fitted[0]), self._room(), predicted,
        )  # fmt: skip
        self.moments.set(np.arange(moments.size), moments)
        self.fitted.set(np.arange(fitted.size), fitted)
        known = np.flatnonzero(~np.isnan(predicted))
        if known.size:
            rows = pa.array(known)
            kept = {name: batch[name].take(rows) for name in (SEQ, *self.keep)}
            yield self.out(
                **kept, predicted=predicted[known], actual=targets[known], error=(predicted - targets)[known]
            )

    def _room(self) -> Float64s:
        """(2 + features, features): a fit's linear system, what it solves for, and deviations."""
        return np.empty((len(self.features) + 2, len(self.features)))


def _numbers(column: pa.Array) -> Float64s:
    """A column as floating-point numbers, null as NaN."""
    found: Float64s = pc.fill_null(column.cast(pa.float64()), math.nan).to_numpy(zero_copy_only=False)
    return found


@compiled
def _learn(
    moments: Any, weights: Any, values: Any, targets: Any, forgetting: float, ridge: float, every: int, learnt: int,
    room: Any, predicted: Any,
) -> int:  # fmt: skip
    """Predict and learn from the tuples in their order; returns how many were learnt from, those before included."""
    features = values.shape[1]
    last = features + 1
    first_of_last = last * (last + 1) // 2
    row = np.empty(features + 2)
    row[0] = 1.0
    for t in range(targets.size):
        count = moments[0]
        for i in range(1, last):
            value = values[t, i - 1]
            if math.isnan(value):
                value = moments[i * (i + 1) // 2] / count if count > 0.0 else 0.0
            row[i] = value
        row[last] = targets[t]
        if count == 0.0:
            predicted[t] = math.nan
        elif learnt < every:
            predicted[t] = moments[first_of_last] / count
        else:
            total = weights[0]
            for i in range(1, last):
                if weights[i] != 0.0:
                    total += weights[i] * _near(moments, count, i, row[i])
            predicted[t] = total
        at = 0
        for i in range(last + 1):
            for j in range(i + 1):
                moments[at] = forgetting * moments[at] + row[i] * row[j]
                at += 1
        learnt += 1
        if learnt % every == 0:
            _fit(moments, weights, ridge, room)
    return learnt


@compiled
def _near(moments: Any, count: float, i: int, value: float) -> float:
    """A value of feature i, or the nearest to it that is not further from the mean than any should be."""
    mean = moments[i * (i + 1) // 2] / count
    variance = moments[i * (i + 1) // 2 + i] / count - mean * mean
    reach = FAR * math.sqrt(max(variance, 0.0))
    return float(min(max(value, mean - reach), mean + reach))


@compiled
def _fit(moments: Any, weights: Any, ridge: float, room: Any) -> None:
    """The parameters that fit the sums best."""
    features = room.shape[1]
    system, solution, deviations = room[:features], room[features], room[features + 1]
    count = moments[0]
    of_target = (features + 1) * (features + 2) // 2
    target_mean = moments[of_target] / count
    for i in range(features):
        first = (i + 1) * (i + 2) // 2
        mean = moments[first] / count
        square = moments[first + i + 1] / count
        variance = square - mean * mean
        # Below this it is what rounding leaves of a feature that does not vary.
        deviations[i] = math.sqrt(variance) if variance > 1e-12 * square else 0.0
        for j in range(i):
            other = moments[(j + 1) * (j + 2) // 2] / count
            product = deviations[i] * deviations[j]
            system[i, j] = (moments[first + j + 1] / count - mean * other) / product if product > 0.0 else 0.0
        system[i, i] = 1.0 + ridge / count
        shared = moments[of_target + i + 1] / count - mean * target_mean
        solution[i] = shared / deviations[i] if deviations[i] > 0.0 else 0.0
    _solve(system, solution)
    weights[0] = target_mean
    for i in range(features):
        weight = solution[i] / deviations[i] if deviations[i] > 0.0 else 0.0
        weights[i + 1] = weight
        weights[0] -= weight * moments[(i + 1) * (i + 2) // 2] / count


@compiled
def _solve(system: Any, solution: Any) -> None:
    """Solve for a symmetric matrix of which the lower triangle is given; both are overwritten.

    An unknown whose pivot is not above zero, as rounding or a damaged backup may make it, is left out.
    """
    size = solution.size
    for i in range(size):
        for j in range(i + 1):
            total = system[i, j]
            for k in range(j):
                total -= system[i, k] * system[j, k]
            if i != j:
                system[i, j] = total / system[j, j]
            else:
                system[i, i] = math.sqrt(total) if total > 1e-12 else math.inf
    for i in range(size):
        total = solution[i]
        for k in range(i):
            total -= system[i, k] * solution[k]
        solution[i] = total / system[i, i]
    for i in range(size - 1, -1, -1):
        total = solution[i]
        for k in range(i + 1, size):
            total -= system[k, i] * solution[k]
        solution[i] = total / system[i, i]
