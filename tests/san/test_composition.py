"""Joined and replicated nets are the nets one would have written by hand."""

import pytest
from tests.san.closed_forms import repair_shop

from spillway.san import Case, Exponential, Net, TimeAverage, explore, join, long_run, minimum, replicate, solve


def test_replicated_machines_and_a_shared_shop_are_the_machine_repairman() -> None:
    """Eight machines of one token each, with a shop: the same means as one place of eight tokens."""
    machine = Net("machine")
    up, down, broken = machine.place("up", 1), machine.place("down"), machine.place("broken")
    machine.timed("fail", Exponential(0.1), inputs=[up], outputs=[down, broken])
    # Two crews work on all that are down; each machine gets its share of them.
    machine.timed("repair", Exponential(0.4 * minimum(broken, 2) / broken), inputs=[down, broken], outputs=[up])
    shop = replicate("shop", machine, 8, shared=["broken"])
    assert sorted(shop.places)[:2] == ["broken", "machine[0].down"]
    assert len(shop.activities) == 16
    known = repair_shop()
    assert long_run(explore(shop), shop["broken"]) == pytest.approx(known.values["broken"], abs=1e-9)


def test_a_joined_line_is_the_line() -> None:
    """Two stations that share the place between them, against one net of the two."""
    station = Net("station")
    before, after = station.place("in"), station.place("out")
    station.timed("serve", Exponential(1.0), inputs=[before, after < 3], cases=[Case(0.9, [after]), Case(0.1)])
    gate = Net("gate")
    entry = gate.place("entry")
    gate.timed("arrive", Exponential(0.6), inputs=[entry < 3], outputs=[entry])
    leave = Net("leave")
    exit_ = leave.place("exit")
    leave.timed("go", Exponential(2.0), inputs=[exit_])
    line = join(
        "line",
        {"gate": gate, "a": station, "b": station, "leave": leave},
        shared={"first": ["gate.entry", "a.in"], "second": ["a.out", "b.in"], "third": ["b.out", "leave.exit"]},
    )

    plain = Net("plain")
    first, second, third = (plain.place(name) for name in ("first", "second", "third"))
    plain.timed("arrive", Exponential(0.6), inputs=[first < 3], outputs=[first])
    plain.timed("a", Exponential(1.0), inputs=[first, second < 3], cases=[Case(0.9, [second]), Case(0.1)])
    plain.timed("b", Exponential(1.0), inputs=[second, third < 3], cases=[Case(0.9, [third]), Case(0.1)])
    plain.timed("go", Exponential(2.0), inputs=[third])

    for name in ("first", "second", "third"):
        joined = solve(line, [TimeAverage(name, line[name], end=10)])[name]
        assert joined == pytest.approx(solve(plain, [TimeAverage(name, plain[name], end=10)])[name], abs=1e-12)


def test_a_joined_net_leaves_its_parts_alone() -> None:
    part = Net("part", may_stop=True)
    place = part.place("place", 1)
    part.timed("go", Exponential(1), inputs=[place])
    joined = join("both", {"a": part, "b": part}, shared={"one": ["a.place", "b.place"]})
    assert list(part.places) == ["place"]
    assert list(part.activities) == ["go"]
    assert joined.may_stop
    assert list(joined.places) == ["one"]
    assert not join("both", {"a": part}, may_stop=False).may_stop
