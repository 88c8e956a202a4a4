"""Drivers of jobs, killed as histories say: many histories, one after the other, by the same processes while they live.

What is judged is the output alone: every batch of every job row for row what an undisturbed run puts out, whatever was
killed when, and whatever memory was lost that the protection claims to bear.
"""

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spillway.soak.host_graph import Outputs
from spillway.soak.host_holds import HOLDS, Holding
from spillway.soak.host_judge import difference
from spillway.soak.host_process import DriverProcess, StuckError
from spillway.soak.kill_driver import DriverInside
from spillway.soak.kill_graph import JOBS, WRITES, Loss, undisturbed, written
from spillway.soak.kills import Kill, Kills, as_json
from spillway.spark.offsets import numbers_in
from spillway.state.folders import make_temporary

HISTORY_S_MAX = 900.0
"""How long a history may take before the run is taken for stuck."""

TOGETHER = ""
"""The name of a driver that runs all jobs."""

_DRIVER = "spillway.soak.kill_driver"
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class KillVerdict:
    """What came of a history."""

    history: Kills
    story: str  # empty if the output is what it should be
    struck: int  # kills: one that waits for a step to which nobody comes does not strike
    recovered: int  # shards that had lost their memory, as far as drivers lived to tell
    seconds: float


@dataclass(slots=True, kw_only=True)
class KillTotals:
    """What came of some histories."""

    histories: int = 0
    struck: int = 0
    recovered: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)  # by seed: the whole story

    def count(self, verdict: KillVerdict) -> None:
        self.histories += 1
        self.struck += verdict.struck
        self.recovered += verdict.recovered
        for kill in verdict.history.kills:
            self.kills[f"{' and '.join(kill.jobs)}, {kill.loss}"] += 1
        if verdict.story:
            self.broken[verdict.history.seed] = verdict.story


@dataclass(slots=True)
class _Life:
    """One history under way."""

    history: Kills
    folder: Path
    state: Path
    told: list[str] = field(default_factory=list)  # what happened, for the story
    struck: set[int] = field(default_factory=set)  # kills, by number
    done: set[str] = field(default_factory=set)  # drivers
    recovered: int = 0
    error: str = ""

    @property
    def holding(self) -> Holding:
        return Holding(folder=self.folder / HOLDS, holds=())

    def note(self, what: str) -> None:
        self.told.append(f"  {time.monotonic() % 1000:.2f} s: {what}")


class KillWorld:
    """Drivers of the jobs; for the length of a ``with``.

    Those of ``processes`` have a process each, and can be killed; ``TOGETHER`` is one for all jobs. Other jobs are run
    by this process in the session ``inside``, which costs less. ``java`` are further options of every Java there is.
    """

    def __init__(
        self,
        *,
        processes: Sequence[str] = JOBS,
        inside: Any = None,
        master: str = "local[2,4]",
        java: str = "",
    ) -> None:
        assert inside is not None or {*processes} in ({*JOBS}, {TOGETHER}), "who runs the others?"
        self._processes = processes
        self._names = (TOGETHER,) if TOGETHER in processes else JOBS
        self._inside = inside
        self._master = master
        self._java = java
        self._drivers: dict[str, DriverProcess | DriverInside] = {}
        self._lived = 0

    def __enter__(self) -> Self:
        self._files = Path(tempfile.mkdtemp(prefix="spillway-soak-"))
        self._memory = make_temporary("soak-", graph="a soak of jobs")
        self._wanted: Outputs = undisturbed(self._files / "undisturbed")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(*list(self._drivers))
        for folder in (self._files, self._memory):
            shutil.rmtree(folder, ignore_errors=True)

    # -- one history --------------------------------------------------------------------------------------------------

    def live(self, history: Kills) -> KillVerdict:
        """Run the jobs, kill as the history says, and judge what came of it."""
        began_s = time.monotonic()
        name = f"history-{self._lived}"
        life = _Life(history, self._files / name, self._memory / name)
        life.holding.folder.mkdir(parents=True)
        self._lived += 1
        try:
            self._begin(life, *self._names)
            self._follow(life, until_s=time.monotonic() + HISTORY_S_MAX)
        except StuckError as stuck:
            life.error = life.error or str(stuck)
        if life.error:
            self._end(*list(self._drivers))  # which may be in any state
        broken = [life.error] if life.error else list(compared(written(life.folder / "out"), self._wanted))
        for folder in (life.folder, life.state):
            shutil.rmtree(folder, ignore_errors=True)
        return KillVerdict(
            history=history,
            story=_story(broken, life) if broken else "",
            struck=len(life.struck),
            recovered=life.recovered,
            seconds=time.monotonic() - began_s,
        )

    def _begin(self, life: _Life, *names: str) -> None:
        for name in names:
            if name not in self._drivers:
                self._drivers[name] = self._start(name)
        for name in names:
            self._drivers[name].tell(
                "begin",
                folder=str(life.folder),
                state=str(life.state),
                job=None if name == TOGETHER else name,
                protection=life.history.protection,
                stops=[as_json(kill.stop) for kill in life.history.kills],
            )

    def _start(self, name: str) -> DriverProcess | DriverInside:
        if name not in self._processes:
            return DriverInside(self._inside)
        return DriverProcess(self._master, memory=self._memory, java=self._java, module=_DRIVER)

    def _follow(self, life: _Life, *, until_s: float) -> None:
        while not life.error and len(life.done) < len(self._names):
            for name, driver in list(self._drivers.items()):
                event = driver.soon(seconds_max=_LOOK_S)
                if event is not None:
                    self._take(life, name, event)
            self._strike_due(life)
            if time.monotonic() > until_s:
                raise StuckError("the jobs take too long")

    def _take(self, life: _Life, name: str, event: dict[str, Any]) -> None:
        life.note(f"{name or 'all'}: {json.dumps(event)}")
        if event["event"] == "ended":
            life.done.add(name)
            life.error = life.error or event["error"]
            life.recovered += event.get("recovered", 0)

    # -- what is done to drivers --------------------------------------------------------------------------------------

    def _strike_due(self, life: _Life) -> None:
        for number, kill in enumerate(life.history.kills):
            if life.error or number in life.struck or not self._due(life, number, kill):
                continue
            life.struck.add(number)
            if kill.stop is None:
                time.sleep(kill.after_s)
            life.note(kill.sentence())
            names = [name for name in self._names if name == TOGETHER or name in kill.jobs]
            self._end(*names)
            for job in kill.jobs:
                _lose(life.state, job, kill.loss)
            life.holding.let_go(number)
            life.done -= {*names}
            self._begin(life, *names)

    def _due(self, life: _Life, number: int, kill: Kill) -> bool:
        if kill.stop is not None:
            return life.holding.held(number) is not None
        return max(numbers_in(life.folder / "checkpoint" / kill.jobs[0] / "commits"), default=-1) >= kill.batch

    def _end(self, *names: str) -> None:
        """Kill drivers and all they started, at once."""
        for name in names:
            driver = self._drivers.pop(name, None)
            if driver is not None:
                driver.kill()


def _lose(state: Path, job: str, loss: Loss) -> None:
    """Lose memory of a job whose driver is gone."""
    if loss is not Loss.NOTHING:
        shutil.rmtree(state / job, ignore_errors=True)
    if loss is Loss.ALL:
        shutil.rmtree(state / ".logs" / WRITES[job], ignore_errors=True)


def compared(found: Outputs, wanted: Outputs) -> Iterator[str]:
    """How an output is another than it should be, a sentence each."""
    for sink, batches in wanted.items():
        if found[sink].keys() != batches.keys():
            yield f"Output {sink!r} has batches {sorted(found[sink])}, not {sorted(batches)}."
        for batch in sorted(found[sink].keys() & batches.keys()):
            if found[sink][batch] != batches[batch]:
                yield f"Output {sink!r}: batch {batch} is another: {difference(found[sink][batch], batches[batch])}."


def _story(broken: list[str], life: _Life) -> str:
    """The whole story of a history that broke something, and how to have it again."""
    first, *others = broken
    history = life.history
    lines = [f"History {history.seed}: {first}", *others, f"What was done: {history.sentence()}", *life.told]
    replay = f"spillway soak jobs --protect {history.protection} --seed {history.seed} --minutes 0"
    return "\n".join([*lines, f"Replay it: {replay}"])
