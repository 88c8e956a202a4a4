"""Online linear regression: what numpy says of the same tuples, however they are cut, lost or missing."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import graph_of, running, through, tuples

from spillway.errors import GraphError, InputError
from spillway.graph import Approximate, Checkpoint, Exact, Nothing, Protection
from spillway.operators.least_squares import FAR, LeastSquares
from spillway.seeds import generator

Floats = npt.NDArray[np.float64]
NAMES = ("a", "b", "c")


def model(protect: Protection | None = None, **options: Any) -> LeastSquares:
    return LeastSquares("model", features=NAMES, target="y", **{"protect": protect or Nothing(), **options})


def examples(count: int, *, seed: int = 1, noise: float = 0.0) -> tuple[Floats, Floats]:
    """Features, the third in large units, and what follows from them."""
    random = generator(seed, "examples")
    values = random.standard_normal((count, 3)) * (1.0, 2.0, 300.0) + (0.0, 5.0, -1_000.0)
    return values, 7.0 + values @ (1.0, -2.0, 0.01) + noise * random.standard_normal(count)


def cut(values: Floats, targets: Floats, *ends: int) -> list[pa.RecordBatch]:
    """Batches that end at the given numbers of tuples; NaN becomes null."""
    starts = (0, *ends)
    return [
        tuples(
            start,
            wafer=np.arange(start, end) + 100,
            **{name: pa.array(values[start:end, i], from_pandas=True) for i, name in enumerate(NAMES)},
            y=targets[start:end],
        )
        for start, end in zip(starts, (*ends, len(targets)), strict=True)
        if end > start
    ]


def naive(values: Floats, targets: Floats, *, forgetting: float, ridge: float, every: int) -> list[float]:
    """Every prediction from all tuples before it, by weighted ridge regression with numpy."""
    found = []
    known = np.empty((0, 3))
    weights = np.zeros(4)
    for t in range(len(targets)):
        fade = forgetting ** np.arange(t - 1, -1, -1.0)
        mean = fade @ known / fade.sum() if t else np.zeros(3)
        row = np.where(np.isnan(values[t]), mean, values[t])
        if t and t % every == 0:
            centred = known - mean
            spread = np.sqrt(fade @ centred**2 / fade.sum())
            scaled = centred / np.where(spread > 0, spread, 1.0)
            # A feature that does not vary is zero here, and the ridge makes that no weight.
            system = scaled.T @ (fade[:, None] * scaled) + ridge * np.eye(3)
            aim = fade @ targets[:t] / fade.sum()
            solved = np.linalg.solve(system, scaled.T @ (fade * (targets[:t] - aim)))
            slopes = solved / np.where(spread > 0, spread, 1.0)
            weights = np.concatenate([[aim - slopes @ mean], slopes])
        if 0 < t < every:
            found.append(float(fade @ targets[:t] / fade.sum()))
        elif t:
            spread = np.sqrt(np.maximum(fade @ known**2 / fade.sum() - mean**2, 0.0))
            found.append(float(weights[0] + weights[1:] @ np.clip(row, mean - FAR * spread, mean + FAR * spread)))
        known = np.vstack([known, row])
    return found


@settings(max_examples=40)
@given(
    count=st.integers(2, 40),
    holes=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 2)), max_size=12),
    forgetting=st.sampled_from([0.5, 0.97, 1.0]),
    every=st.integers(1, 12),
    ends=st.lists(st.integers(1, 39), max_size=4),
)
def test_predictions_are_those_of_a_fit_of_all_that_came_before(
    count: int, holes: list[tuple[int, int]], forgetting: float, every: int, ends: list[int]
) -> None:
    values, targets = examples(count, noise=0.5)
    for row, column in holes:
        if row < count:
            values[row, column] = math.nan
    options = {"forgetting": forgetting, "ridge": 0.5, "every": every}
    batches = cut(values, targets, *sorted({end for end in ends if end < count}))
    out = through(model(keep=["wafer"], **options), batches=batches)
    assert out["seq"].to_pylist() == [*range(1, count)]
    assert out["wafer"].to_pylist() == [*range(101, 100 + count)]
    wanted = naive(values, targets, **options)
    assert out["predicted"].to_numpy() == pytest.approx(np.array(wanted), rel=1e-6, abs=1e-6)
    assert out["actual"].to_pylist() == targets[1:].tolist()
    assert out["error"].to_pylist() == (out["predicted"].to_numpy() - targets[1:]).tolist()


def test_what_follows_from_the_features_is_learnt() -> None:
    values, targets = examples(300)
    out = through(model(ridge=1e-6), batches=cut(values, targets, 100))
    assert abs(out["error"].to_numpy()[20:]).max() < 1e-3


@pytest.mark.parametrize("column", [0, 2])
def test_a_feature_that_never_varies_or_repeats_another_changes_nothing(column: int) -> None:
    values, targets = examples(120, noise=1.0)
    values[:, 1] = 0.1 if column == 0 else values[:, 0] * 2 + 1
    out = through(model(ridge=1e-9), batches=cut(values, targets, 50))
    assert np.isfinite(out["predicted"].to_numpy()).all()
    assert abs(out["error"].to_numpy()[60:]).max() < 30  # beside a spread of 5, most of it of what is left out


def test_a_value_far_off_carries_no_prediction_away() -> None:
    values, targets = examples(100)
    values[:90, 0] *= 1e-6  # has hardly moved, and then jumps
    out = through(model(ridge=1e-3), batches=cut(values, targets))
    assert abs(out["error"].to_numpy()[89]) < 50


def test_drift_is_followed_only_by_one_that_forgets() -> None:
    values, targets = examples(800)
    targets[400:] -= 4 * values[400:, 0]
    remembering, forgetting = (
        abs(through(model(forgetting=keep), batches=cut(values, targets))["error"].to_numpy()[700:]).mean()
        for keep in (1.0, 0.95)
    )
    assert forgetting < 0.5  # ridge and fading leave something
    assert remembering > 1.0


class TestMemoryLost:
    BATCHES = cut(*examples(200, noise=0.5), *range(20, 200, 20))

    def lost(self, protect: Protection) -> pa.Table:
        return through(model(protect, every=7), batches=self.BATCHES, wipe_before=(4, 8))

    def test_exact_is_as_if_nothing_was(self) -> None:
        assert self.lost(Exact()).equals(through(model(every=7), batches=self.BATCHES))

    def test_a_checkpoint_of_every_batch_too(self) -> None:
        assert self.lost(Checkpoint(every=1)).equals(through(model(every=7), batches=self.BATCHES))

    def test_one_without_protection_starts_again(self) -> None:
        out = self.lost(Nothing())
        assert out.num_rows == 197  # none for the first tuple, nor for the first after each loss
        alone = through(model(every=7), batches=self.BATCHES[8:])
        assert out["predicted"].to_pylist()[-39:] == alone["predicted"].to_pylist()

    @pytest.mark.parametrize("theta", [1.0, 1e4, 3e8])
    def test_sums_are_off_by_theta_at_most(self, theta: float) -> None:
        found = []
        for protect, wiped in ((Nothing(), ()), (Approximate(theta), (4, 8))):
            with running(graph_of(model(protect), batches=self.BATCHES)) as run:
                while True:
                    if run.batch in wiped:
                        run.wipe()
                    if not run.step():
                        break
                found.append(np.array(run.shard("model", 0).opened_state["moments"].read()))  # type: ignore[attr-defined]
        off = abs(found[0] - found[1]).max()
        assert off <= theta
        assert off > 0 or theta < 3e8  # otherwise the bound would prove nothing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ()}, "between 1 and 2,000 features are wanted; got 0"),
        ({"forgetting": 0.0}, "forgetting must be above 0 and at most 1; got 0.0"),
        ({"forgetting": 1.5}, "forgetting must be above 0 and at most 1; got 1.5"),
        ({"ridge": 0.0}, "ridge must be a number above zero; got 0.0"),
        ({"ridge": math.nan}, "ridge must be a number above zero; got nan"),
        ({"every": 0}, "every must be a whole number, 1 or more; got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=f"Operator 'model': {message}"):
        LeastSquares("model", **{"features": NAMES, "target": "y", **options})


def test_columns_are_wanted() -> None:
    batches = cut(*examples(5))
    with pytest.raises(GraphError, match="Operator 'model': column 'z' is wanted"):
        through(LeastSquares("model", features=["a"], target="z"), batches=batches)
    with pytest.raises(GraphError, match="Operator 'model': column 'z' is wanted"):
        through(model(keep=["z"]), batches=batches)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("y", math.nan, "column 'y' must be a finite number; it is not at seq 3"),
        ("y", math.inf, "column 'y' must be a finite number; it is not at seq 3"),
        ("a", math.inf, "features must be finite numbers or missing"),
    ],
)
def test_numbers_are_wanted(column: str, value: float, message: str) -> None:
    values, targets = examples(5)
    (targets if column == "y" else values[:, 0])[3] = value
    with pytest.raises(InputError, match=message):
        through(model(), batches=cut(values, targets))
