"""Nets whose measures have a formula."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import gammainc

from spillway.san import (
    AtInstant,
    Case,
    Erlang,
    Exponential,
    Impulses,
    Measure,
    Net,
    TimeAverage,
    minimum,
)

SETTLED = {"start": 400.0, "end": 3000.0}  # an interval by which the nets below have forgotten their start


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A net, its measures, and what each comes to; `long_run` measures are means of the steady state."""

    net: Net
    measures: list[Measure]
    values: dict[str, float]
    long_run: bool
    exponential: bool = True


def single_server(*, wrong: float = 1.0) -> Known:
    """M/M/1 with load 0.5; cut off at 100, where 2**-100 of the law lies beyond."""
    net = Net("single-server")
    queue = net.place("queue")
    net.timed("arrive", Exponential(0.5 * wrong), inputs=[queue < 100], outputs=[queue])
    net.timed("serve", Exponential(1.0), inputs=[queue])
    return Known(
        net=net,
        measures=[TimeAverage("length", queue, **SETTLED), TimeAverage("busy", queue > 0, **SETTLED)],
        values={"length": 0.5 / (1 - 0.5), "busy": 0.5},
        long_run=True,
    )


def finite_queue(*, wrong: float = 1.0) -> Known:
    """M/M/1/5; an arrival that finds it full is lost, which an instantaneous activity decides."""
    load, room = 0.8, 5
    net = Net("finite-queue")
    queue, door = net.place("queue"), net.place("door")
    net.timed("arrive", Exponential(load * wrong), outputs=[door])
    net.instant("enter", inputs=[door, queue < room], outputs=[queue], priority=1)
    net.instant("turn-away", inputs=[door])
    net.timed("serve", Exponential(1.0), inputs=[queue])
    chances = [load**n for n in range(room + 1)]
    chances = [chance / sum(chances) for chance in chances]
    length = SETTLED["end"] - SETTLED["start"]
    return Known(
        net=net,
        measures=[
            TimeAverage("length", queue, **SETTLED),
            TimeAverage("full", queue == room, **SETTLED),
            Impulses("lost", {"turn-away": 1 / length}, **SETTLED),
        ],
        values={
            "length": sum(n * chance for n, chance in enumerate(chances)),
            "full": chances[room],
            "lost": load * chances[room],
        },
        long_run=True,
    )


def repair_shop(*, wrong: float = 1.0) -> Known:
    """Eight machines fail alone, two crews repair them."""
    machines, crews, failing, repairing = 8, 2, 0.1, 0.4
    net = Net("repair-shop")
    up, down = net.place("up", machines), net.place("down")
    net.timed("fail", Exponential(failing * wrong * up), inputs=[up], outputs=[down])
    net.timed("repair", Exponential(repairing * minimum(down, crews)), inputs=[down], outputs=[up])
    weights = [1.0]
    for broken in range(1, machines + 1):
        rate_up, rate_down = failing * (machines - broken + 1), repairing * min(broken, crews)
        weights.append(weights[-1] * rate_up / rate_down)
    mean = sum(broken * weight for broken, weight in enumerate(weights)) / sum(weights)
    return Known(
        net=net,
        measures=[TimeAverage("broken", down, **SETTLED), TimeAverage("idle", down == 0, **SETTLED)],
        values={"broken": mean, "idle": 1 / sum(weights)},
        long_run=True,
    )


def cycle(*, wrong: float = 1.0) -> Known:
    """Four tokens go round between two places; one in four stays where it is."""
    tokens, there, back = 4, 1.2, 0.9
    net = Net("cycle")
    left, right = net.place("left", tokens), net.place("right")
    net.timed("there", Exponential(there * wrong), inputs=[left], cases=[Case(0.75, [right]), Case(0.25, [left])])
    net.timed("back", Exponential(back), inputs=[right], outputs=[left])
    ratio = 0.75 * there / back
    weights = [ratio**n for n in range(tokens + 1)]
    mean = sum(n * weight for n, weight in enumerate(weights)) / sum(weights)
    return Known(net=net, measures=[TimeAverage("right", right, **SETTLED)], values={"right": mean}, long_run=True)


def switch(*, wrong: float = 1.0) -> Known:
    """One token between two places: the chance to find it on one side at a time."""
    there, back, at = 0.7, 0.4, 1.5
    net = Net("switch")
    off, on = net.place("off", 1), net.place("on")
    net.timed("there", Exponential(there * wrong), inputs=[off], outputs=[on])
    net.timed("back", Exponential(back), inputs=[on], outputs=[off])
    chance = there / (there + back) * (1 - math.exp(-(there + back) * at))
    return Known(net=net, measures=[AtInstant("on", on, at=at)], values={"on": chance}, long_run=False)


def stages(*, wrong: float = 1.0) -> Known:
    """Four exponential stages in a row: done at a time with the chance of Erlang's law."""
    count, rate, at = 4, 2.0, 1.8
    net = Net("stages", may_stop=True)
    places = [net.place(f"stage{i}", int(i == 0)) for i in range(count + 1)]
    for i in range(count):
        net.timed(f"step{i}", Exponential(rate * wrong), inputs=[places[i]], outputs=[places[i + 1]])
    return Known(
        net=net,
        measures=[
            AtInstant("done", places[count], at=at),
            Impulses("steps", {f"step{i}": 1 for i in range(count)}, end=at),
        ],
        values={
            "done": float(gammainc(count, rate * at)),
            "steps": sum(float(gammainc(i, rate * at)) for i in range(1, count + 1)),
        },
        long_run=False,
    )


def erlang(*, wrong: float = 1.0) -> Known:
    """The same in one activity of Erlang's law, which the exact solver does not take."""
    known = stages()
    net = Net("erlang", may_stop=True)
    start, done = net.place("start", 1), net.place("done")
    net.timed("work", Erlang(4, 2.0 * wrong), inputs=[start], outputs=[done])
    return Known(
        net=net,
        measures=[AtInstant("done", done, at=1.8)],
        values={"done": known.values["done"]},
        long_run=False,
        exponential=False,
    )


def erlang_server(*, wrong: float = 1.0) -> Known:
    """M/E3/1: the mean length by the formula of Pollaczek and Khinchine."""
    arriving, count, rate = 0.6, 3, 3.0
    net = Net("erlang-server")
    queue = net.place("queue")
    net.timed("arrive", Exponential(arriving * wrong), outputs=[queue])
    net.timed("serve", Erlang(count, rate), inputs=[queue])
    load = arriving * count / rate
    mean = load + load**2 * (1 + 1 / count) / (2 * (1 - load))
    return Known(
        net=net,
        measures=[TimeAverage("length", queue, **SETTLED)],
        values={"length": mean},
        long_run=True,
        exponential=False,
    )


ALL: list[Callable[..., Known]] = [
    single_server,
    finite_queue,
    repair_shop,
    cycle,
    switch,
    stages,
    erlang,
    erlang_server,
]
EXPONENTIAL = [make for make in ALL if make().exponential]
