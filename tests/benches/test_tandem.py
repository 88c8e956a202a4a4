"""The line of operators is the same line as a net, with a fast-forward, and in simpy."""

import pytest

from spillway.benches import tandem_in_simpy
from spillway.benches.tandem import Tandem
from spillway.san import Deterministic, ModelError, Precision, simulate

LINE = Tandem(operators=3, arrivals=Deterministic(0.02), cost_s=1e-4, kept=0.8, room=20, crash_rate=0.01, down_s=2.0)
END_S = 300.0


def test_fast_forward_changes_nothing_but_the_time_it_takes() -> None:
    net = LINE.net()
    measures = LINE.measures(net, END_S)
    many = Precision(level=0.999, replications_min=200, replications_max=200)
    full = simulate(net, measures, seed=1, precision=many, fast_forward=False)
    skipping = simulate(net, measures, seed=2, precision=many)
    assert skipping.events < full.events / 3
    for name in full.estimates:
        together = full[name].half_width + skipping[name].half_width
        assert abs(full[name].mean - skipping[name].mean) < together, name


@pytest.mark.parametrize("kind", [tandem_in_simpy.Net, tandem_in_simpy.Operators])
def test_the_lines_in_simpy_store_as_much(kind: type) -> None:
    simpy = pytest.importorskip("simpy")
    net = LINE.net()
    ours = simulate(
        net,
        LINE.measures(net, END_S),
        seed=1,
        precision=Precision(level=0.999, replications_min=200, replications_max=200),
    )["stored"]
    stored = [kind(simpy, LINE, seed).stored_until(END_S) for seed in range(6)]
    mean = sum(stored) / len(stored)
    # Six runs: their mean varies by a deviation over the root of six.
    assert abs(mean - ours.mean) < ours.half_width + 3.5 * ours.deviation / 6**0.5
    assert ours.deviation < 0.2 * ours.mean


def test_lines_that_make_no_sense_are_refused() -> None:
    for wrong in ({"operators": 0}, {"room": 0}, {"kept": 1.5}):
        with pytest.raises(ModelError, match="Tandem"):
            Tandem(**wrong)  # type: ignore[arg-type]
