"""What is kept of places that rarely change is right at every moment, also while they change."""

from spillway.san import Case, Deterministic, Net, Precision, TimeAverage, simulate, where

TWICE = Precision(relative=1.0, replications_min=2, replications_max=2)


def flipping() -> Net:
    """A flag that is 0 or 1 in turn, a second each."""
    net = Net("flips")
    flag = net.place("flag", rarely=True)
    net.timed("flip", Deterministic(1.0), outputs=[flag.set(1 - flag)])
    return net


def test_a_completion_reads_what_it_has_just_written() -> None:
    net = Net("flips")
    flag, copied = net.place("flag", rarely=True), net.place("copied", 3)
    net.timed("flip", Deterministic(1.0), outputs=[flag.set(1 - flag), copied.set(where(flag == 1, 5, 3))])
    right = TimeAverage("right", copied == where(flag == 1, 5, 3), end=20.5)
    assert simulate(net, [right], seed=1, precision=TWICE)["right"].mean == 1.0


def test_others_read_what_has_been_written() -> None:
    net = flipping()
    flag, copied = net["flag"], net.place("copied")
    net.timed("copy", Deterministic(0.3), outputs=[copied.set(copied + 2 * (flag == 1))])
    counted = TimeAverage("odd", copied - 2 * ((copied + 1) // 2), end=20.0)
    found = simulate(net, [TimeAverage("copied", copied, end=2.0), counted], seed=1, precision=TWICE)
    # Nothing in the first second; at 1.2, 1.5 and 1.8 two more each.
    assert round(found["copied"].mean, 9) == (2 * 0.3 + 4 * 0.3 + 6 * 0.2) / 2
    assert found["odd"].mean == 0


def test_probabilities_follow_what_they_read() -> None:
    net = flipping()
    flag, ones, zeros = net["flag"], net.place("ones"), net.place("zeros")
    cases = [Case(where(flag, 1, 0), [ones]), Case(where(flag, 0, 1), [zeros])]
    net.timed("draw", Deterministic(0.3), cases=cases)
    # Drawn at 0.3, 0.6 and 0.9 without the flag, at 1.2, 1.5 and 1.8 with it.
    measures = [
        TimeAverage(f"{name} at {at}", net[name], start=at, end=at + 0.05)
        for name in ("ones", "zeros")
        for at in (1, 2)
    ]
    found = simulate(net, measures, seed=1, precision=TWICE)
    assert [found[measure.name].mean for measure in measures] == [0, 3, 3, 3]


def test_a_measure_of_flags_is_looked_at_when_they_change() -> None:
    net = flipping()
    found = simulate(net, [TimeAverage("up", net["flag"] == 1, end=10.0)], seed=1, precision=TWICE)
    assert found["up"].mean == 0.5
