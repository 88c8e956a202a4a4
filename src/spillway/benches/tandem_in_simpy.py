"""The line of operators of ``spillway.benches.tandem`` written for simpy, to compare with. simpy comes with [dev].

Twice: ``Net`` is the net as it stands, a container for every place and a process for every activity; ``Operators`` is
what one would write in simpy without the net, a process for every operator and a store between two.
"""

import random
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any, Protocol

from spillway.benches.tandem import Tandem
from spillway.errors import SetupError

Steps = Generator[Any, Any, None]


class SimpyLine(Protocol):
    """A line of operators in simpy."""

    def stored_until(self, model_s: float) -> int:
        """Run to a time; returns how many tuples reached the end."""


def simpy_module() -> ModuleType:
    """simpy, or a sentence about how to get it."""
    try:
        import simpy
    except ImportError as error:
        raise SetupError(
            "The bench compares with simpy, which is not installed: pip install simpy, or spillway[dev]."
        ) from error
    module: ModuleType = simpy
    return module


class Net:
    """A container for every place, a process for every activity."""

    def __init__(self, simpy: ModuleType, line: Tandem, seed: int) -> None:
        self.simpy, self.line, self.random = simpy, line, random.Random(seed)
        env = self.env = simpy.Environment()
        numbers = range(line.operators)
        self.queues = [simpy.Container(env, capacity=line.room) for _ in numbers]
        self.waiting = [simpy.Container(env, init=1) for _ in numbers]
        self.busy = [simpy.Container(env) for _ in numbers]
        self.sending = [simpy.Container(env) for _ in numbers]
        self.restarted = [env.event() for _ in numbers]
        self.stored = 0
        env.process(self._arrive())
        for i in numbers:
            running = [env.process(self._repeat(i, step)) for step in (self._take, self._process, self._send)]
            env.process(self._crash(i, running))

    def stored_until(self, model_s: float) -> int:
        self.env.run(until=model_s)
        return self.stored

    def _arrive(self) -> Steps:
        period = self.line.arrivals.parameters()[0].value({})
        while True:
            yield self.env.timeout(period)
            yield self.queues[0].put(1)

    def _take(self, i: int) -> Steps:
        yield from self._token(self.queues[i].get(1))
        yield from self._token(self.waiting[i].get(1))
        yield self.busy[i].put(1)

    def _process(self, i: int) -> Steps:
        yield from self._token(self.busy[i].get(1))
        yield self.env.timeout(self.random.expovariate(1 / self.line.cost_s))
        kept = self.random.random() < self.line.kept
        yield (self.sending if kept else self.waiting)[i].put(1)

    def _send(self, i: int) -> Steps:
        yield from self._token(self.sending[i].get(1))
        if i + 1 == self.line.operators:
            self.stored += 1
        else:
            yield from self._token(self.queues[i + 1].put(1))
        yield self.waiting[i].put(1)

    def _token(self, request: Any) -> Steps:
        try:
            yield request
        except self.simpy.Interrupt:
            request.cancel()
            raise

    def _repeat(self, i: int, step: Callable[[int], Steps]) -> Steps:
        while True:
            try:
                yield from step(i)
            except self.simpy.Interrupt:
                yield self.restarted[i]

    def _crash(self, i: int, running: list[Any]) -> Steps:
        while True:
            yield self.env.timeout(self.random.expovariate(self.line.crash_rate))
            for process in running:
                process.interrupt()
            # Let the interrupted processes withdraw their requests before the places are emptied.
            yield self.env.timeout(0)
            for place in (self.queues[i], self.busy[i], self.sending[i], self.waiting[i]):
                if place.level:
                    yield place.get(place.level)
            yield self.waiting[i].put(1)
            yield self.env.timeout(self.random.expovariate(1 / self.line.down_s))
            self.restarted[i].succeed()
            self.restarted[i] = self.env.event()


class Operators:
    """A process for every operator, a store between two."""

    def __init__(self, simpy: ModuleType, line: Tandem, seed: int) -> None:
        self.simpy, self.line, self.random = simpy, line, random.Random(seed)
        self.env = simpy.Environment()
        self.queues = [simpy.Store(self.env, capacity=line.room) for _ in range(line.operators)]
        self.stored = 0
        self.env.process(self._arrive())
        for i in range(line.operators):
            self.env.process(self._crash(self.env.process(self._operate(i))))

    def stored_until(self, model_s: float) -> int:
        self.env.run(until=model_s)
        return self.stored

    def _arrive(self) -> Steps:
        period = self.line.arrivals.parameters()[0].value({})
        while True:
            yield self.env.timeout(period)
            yield self.queues[0].put(None)

    def _operate(self, i: int) -> Steps:
        while True:
            request = self.queues[i].get()
            try:
                yield request
                yield self.env.timeout(self.random.expovariate(1 / self.line.cost_s))
                if self.random.random() < self.line.kept:
                    if i + 1 == self.line.operators:
                        self.stored += 1
                    else:
                        request = self.queues[i + 1].put(None)
                        yield request
            except self.simpy.Interrupt:
                request.cancel()
                self.queues[i].items.clear()
                yield self.env.timeout(self.random.expovariate(1 / self.line.down_s))

    def _crash(self, operator: Any) -> Steps:
        while True:
            yield self.env.timeout(self.random.expovariate(self.line.crash_rate))
            operator.interrupt()
