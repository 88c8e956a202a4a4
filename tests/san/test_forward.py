"""Fast-forward skips most events and changes no law."""

import math

import numpy as np
import pytest
from scipy.stats import binom, chisquare, ks_2samp
from tests.san.streams_by_hand import KEPT, stream

from spillway.san import (
    AtInstant,
    Case,
    Deterministic,
    Distribution,
    Exponential,
    Impulses,
    ModelError,
    Net,
    Precision,
    Simulation,
    TimeAverage,
    firing,
    simulate,
)
from spillway.san.flat import flatten
from spillway.san.kernel import replication
from spillway.san.random_numbers import binomial
from spillway.san.tables import workspace
from spillway.seeds import generator

MANY = Precision(replications_min=250, replications_max=250)
LAWS: dict[str, Distribution] = {"deterministic": Deterministic(0.02), "exponential": Exponential(50.0)}


@pytest.fixture(scope="module", params=LAWS)
def one_by_one(request: pytest.FixtureRequest) -> tuple[Distribution, Simulation]:
    """Arrivals of a law, and every one of them simulated."""
    arrivals = LAWS[request.param]
    return arrivals, simulate(*stream(arrivals, forward=False), seed=1, precision=MANY)


def p_values(left: Simulation, right: Simulation) -> dict[str, float]:
    """For each measure, how likely two samples of one law are this far apart or farther."""
    return {
        name: float(ks_2samp(left.samples[:, i], right.samples[:, i]).pvalue) for i, name in enumerate(left.estimates)
    }


def test_every_measure_has_the_same_law(one_by_one: tuple[Distribution, Simulation]) -> None:
    arrivals, full = one_by_one
    skipping = simulate(*stream(arrivals, forward=True), seed=2, precision=MANY)
    assert skipping.skipped > 0.8 * 600 * 50 * 250
    assert skipping.events < 0.2 * full.events
    found = p_values(full, skipping)
    assert min(found.values()) > 1e-3, found


def test_a_wrong_law_is_noticed(one_by_one: tuple[Distribution, Simulation]) -> None:
    arrivals, full = one_by_one
    skipping = simulate(*stream(arrivals, forward=True, kept=KEPT * 1.05), seed=2, precision=MANY)
    assert p_values(full, skipping)["kept"] < 1e-6


def test_switched_off_it_simulates_every_event(one_by_one: tuple[Distribution, Simulation]) -> None:
    arrivals, full = one_by_one
    few = Precision(replications_min=5, replications_max=5)
    off = simulate(*stream(arrivals, forward=True), seed=1, precision=few, fast_forward=False)
    assert (off.skipped, off.jumps) == (0, 0)
    assert off.samples.tobytes() == full.samples[:5].tobytes()


def test_what_is_skipped_is_counted_exactly() -> None:
    """Nothing but a clock: 1000 arrivals at 0.1, 0.2, …, those at or after 100 not counted, whatever the lead."""
    net = Net("clock")
    arrived, kept = net.place("arrived"), net.place("kept")
    net.timed("arrive", Deterministic(0.1), outputs=[arrived])
    net.timed("far", Exponential(1e-9), outputs=[kept.set(0)])
    law = net.fast_forward(when=1, lead=0.35)
    flow = law.arrivals("arrive")
    law.adds(arrived, flow)
    law.completes("arrive", flow)
    (half,) = law.split(flow, 0.5)
    law.adds(kept, half)
    measures = [
        AtInstant("arrived", arrived, at=100.05),
        Impulses("early", {"arrive": 1}, end=50.05),
        Impulses("late", {"arrive": 1}, start=50.05, end=100.05),
    ]
    result = simulate(net, measures, seed=1, precision=Precision(replications_min=2, replications_max=2))
    assert [each.mean for each in result.estimates.values()] == [1000, 500, 500]
    assert result.events < 20


def test_a_countdown_is_never_overshot() -> None:
    """One token less per arrival: the alarm rings after the 1000th, neither sooner nor later."""
    net = Net("countdown", may_stop=True)
    left, rung = net.place("left", 1000), net.place("rung")
    net.timed("arrive", Deterministic(0.5), inputs=[left])
    net.instant("ring", inputs=[left == 0, rung == 0], outputs=[rung])
    law = net.fast_forward(when=left > 0, lead=0)
    law.adds(left, law.arrivals("arrive"), times=-1, at_least=1)
    measures = [
        AtInstant("before", rung, at=500.0),
        AtInstant("after", rung, at=500.25),
        TimeAverage("on", rung, end=1000),
    ]
    result = simulate(net, measures, seed=1, precision=Precision(replications_min=2, replications_max=2))
    assert [each.mean for each in result.estimates.values()] == [0, 1, 0.5]
    assert result.skipped > 990


def test_what_a_jump_counts_may_set_things_going_at_its_end() -> None:
    """1000 arrivals are skipped up to the tick at 100; the count then lets an activity start, which takes 5."""
    net = Net("threshold")
    arrived, rung, done = net.place("arrived"), net.place("rung"), net.place("done")
    net.timed("arrive", Deterministic(0.1))
    net.timed("tick", Deterministic(100.0))
    net.instant("ring", inputs=[arrived >= 900, rung == 0], outputs=[rung])
    net.timed("work", Deterministic(5.0), inputs=[rung, done == 0], outputs=[done])
    law = net.fast_forward(when=rung == 0, lead=0.05)
    law.adds(arrived, law.arrivals("arrive"))
    measures = [AtInstant("before", done, at=104.9), AtInstant("after", done, at=105.0)]
    result = simulate(net, measures, seed=1, precision=Precision(replications_min=2, replications_max=2))
    assert [each.mean for each in result.estimates.values()] == [0, 1]


def test_a_measure_that_the_skipped_events_change_is_refused() -> None:
    net = Net("counted")
    arrived = net.place("arrived")
    net.timed("arrive", Deterministic(0.1), outputs=[arrived])
    law = net.fast_forward(when=1, lead=0)
    law.adds(arrived, law.arrivals("arrive"))
    with pytest.raises(ModelError, match=r"fast-forward at 'arrive' changes measure 'mean'"):
        simulate(net, [TimeAverage("mean", arrived, end=10)], seed=1)


def test_chances_that_are_none_are_refused() -> None:
    net = Net("wrong")
    place = net.place("place", 2)
    net.timed("arrive", Deterministic(0.1))
    law = net.fast_forward(when=1, lead=0)
    law.split(law.arrivals("arrive"), place)
    with pytest.raises(ModelError, match=r"fast-forward at 'arrive': chances of a split"):
        simulate(net, [AtInstant("place", place, at=10)], seed=1)
    with pytest.raises(ModelError, match="sum of at most 1"):
        law.split(law.arrivals("arrive"), 0.6, 0.6)


@pytest.mark.parametrize("seed", range(40))
def test_time_never_runs_backwards_with_several_clocks(seed: int) -> None:
    """Many clocks move at once in a jump; whatever is due next must still come next."""
    random = generator(seed, "clocks")
    net = Net("clocks")
    law = net.fast_forward(when=1, lead=float(random.choice([0.0, 0.1])))
    for i in range(int(random.integers(2, 9))):
        period = float(random.uniform(0.01, 1))
        clock = net.timed(f"clock{i}", Deterministic(period) if random.random() < 0.7 else Exponential(1 / period))
        law.arrivals(clock)
    for i in range(int(random.integers(2, 9))):
        net.timed(f"slow{i}", Exponential(float(random.uniform(0.05, 0.5))))
    flat = flatten(net, [AtInstant("one", 1, at=50)])
    times, cases = np.full(5000, np.nan), np.zeros(5000, np.int64)
    words = random.integers(0, 2**64, 4, dtype=np.uint64)
    sums, trouble, tally = np.zeros(1), np.zeros(4), np.zeros(3, np.int64)
    marking = flat.tables.marking.copy()
    status = replication(flat.tables, workspace(flat.tables), marking, words, sums, trouble, tally, times, cases)
    assert status == firing.DONE
    assert tally[firing.JUMPS] > 0
    done = times[: tally[firing.EVENTS]]
    assert (np.diff(done) >= 0).all(), f"seed {seed}"


@pytest.mark.parametrize(("count", "chance"), [(5, 0.3), (40, 0.9), (300, 0.01), (4000, 0.5), (100_000, 0.2)])
def test_binomial_samples_have_the_binomial_law(count: int, chance: float) -> None:
    state = generator(1, "binomial", count).integers(0, 2**64, 4, dtype=np.uint64)
    samples = np.array([binomial(count, chance, state) for _ in range(20_000)])
    law = binom(count, chance)
    # Bins of about equal chance, as few as there are values.
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    seen = np.bincount(np.searchsorted(edges, samples), minlength=len(edges) + 1)
    expected = np.diff([0, *law.cdf(edges), 1]) * len(samples)
    kept = expected > 5
    assert kept.sum() >= 3
    scale = seen[kept].sum() / expected[kept].sum()
    assert chisquare(seen[kept], expected[kept] * scale).pvalue > 1e-3
    assert math.isclose(samples.mean(), count * chance, abs_tol=5 * law.std() / math.sqrt(len(samples)))


def test_a_rise_is_what_a_reader_of_redundant_streams_passes() -> None:
    """Two copies count what they sent, each with its own losses; the reader passes the rise of the larger count."""
    net = Net("redundant")
    one, two, passed = net.place("one", 3), net.place("two"), net.place("passed")
    net.timed(
        "arrive",
        Deterministic(0.1),
        cases=[
            Case(0.5, [one, two]),
            Case(0.3, [one]),
            Case(0.2, [two]),
        ],
    )
    net.timed("far", Exponential(1e-9))
    law = net.fast_forward(when=1, lead=0)
    together, first, second = law.split(law.arrivals("arrive"), 0.5, 0.3, 0.2)
    gains = [(one, law.merge(together, first)), (two, law.merge(together, second))]
    law.adds(passed, law.rise(*gains))
    for place, flow in gains:
        law.adds(place, flow)
    end = [AtInstant(place.name, place, at=50.05) for place in (one, two, passed)]
    result = simulate(net, end, seed=1, precision=Precision(replications_min=200, replications_max=200))
    sent_one, sent_two, rose = result.samples.T
    assert result.events < 10 * 200
    assert (rose == np.maximum(sent_one, sent_two) - 3).all()
    assert 0 < (sent_two > sent_one).mean() < 1 or (sent_one > sent_two).all()
    assert result["two"].contains(500 * 0.7)
