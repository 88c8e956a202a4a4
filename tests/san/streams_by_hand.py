"""A small stream net with faults, with and without a fast-forward."""

from spillway.san import (
    AtInstant,
    Case,
    Deterministic,
    Distribution,
    Exponential,
    Impulses,
    Measure,
    Net,
    TimeAverage,
    all_of,
    where,
)

END = 600.0
KEPT = 0.3


def stream(
    arrivals: Distribution, *, forward: bool, kept: float = KEPT, lead: float = 0.2
) -> tuple[Net, list[Measure]]:
    """Source, filter, aggregate, sink. A crash of the filter makes the aggregate unstable for 40 of its tuples.

    Tuples leave an unstable aggregate tainted. While the filter is down its tuples are lost.
    """
    net = Net("stream")
    raw, filtered = net.place("raw"), net.place("filtered")
    up, unstable = net.place("up", 1), net.place("unstable")
    clean, tainted, lost = net.place("clean"), net.place("tainted"), net.place("lost")
    net.timed("arrive", arrivals, cases=[Case(up, [raw]), Case(1 - up, [lost])])
    net.timed("filter", Exponential(500.0), inputs=[raw], cases=[Case(kept, [filtered]), Case(1 - kept)])
    net.timed(
        "aggregate",
        Deterministic(1e-3),
        inputs=[filtered],
        outputs=[
            tainted.add(unstable > 0),
            clean.add(unstable == 0),
            unstable.set(where(unstable > 0, unstable - 1, 0)),
        ],
    )
    net.timed("crash", Exponential(1 / 60), inputs=[up], outputs=[lost.add(raw), raw.set(0)])
    net.timed("restart", Deterministic(2.5), inputs=[up == 0], outputs=[up, unstable.set(40)])
    if forward:
        empty = (raw == 0) & (filtered == 0)
        # Down: nothing but losses. Up: tuples pass; what they do in the aggregate depends on its stability.
        down = net.fast_forward(when=empty & (up == 0), lead=lead)
        down.adds(lost, down.arrivals("arrive"))
        for steady in (True, False):
            law = net.fast_forward(when=all_of(empty, up == 1, unstable == 0 if steady else unstable > 1), lead=lead)
            arrived = law.arrivals("arrive")
            passed, dropped = law.split(arrived, kept, 1 - kept)
            law.completes("filter", passed, case=0)
            law.completes("filter", dropped, case=1)
            law.completes("aggregate", passed)
            law.adds(clean if steady else tainted, passed)
            if not steady:
                law.adds(unstable, passed, times=-1, at_least=1)
    measures: list[Measure] = [
        TimeAverage("available", all_of(up == 1, unstable == 0), end=END),
        AtInstant("clean", clean, at=END),
        AtInstant("tainted", tainted, at=END),
        AtInstant("lost", lost, at=END),
        Impulses("filtered", {"filter": 1}, start=100, end=END),
        Impulses("kept", {("filter", 0): 1}, start=100, end=END),
    ]
    return net, measures
