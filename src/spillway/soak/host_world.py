"""A cluster and a driver on it, broken as histories say: many histories, one after the other, on the same hosts."""

import json
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spillway.engine.epochs import memory_named
from spillway.engine.owner_table import read_table
from spillway.files.folders import open_folder
from spillway.soak.host_graph import NAME, SHARDS, Outputs, outputs, undisturbed
from spillway.soak.host_histories import BATCHES, MOVES, Fault, History, Kind
from spillway.soak.host_holds import HOLDS, Holding
from spillway.soak.host_judge import Seen, judge, owns, story_of
from spillway.soak.host_process import DriverProcess, StuckError
from spillway.soak.host_totals import Verdict
from spillway.spark.standalone import Cluster
from spillway.state.folders import make_temporary

SILENCE_S_MAX = 240.0
"""How long nothing may happen before a run is taken for stuck. All of it takes as long as the machine lets it: a driver
that is started again, which is seconds, was seen to take two minutes where others worked too."""

_START_S_MAX = 240.0
_HISTORIES_PER_DRIVER = 25
_LOOK_S = 0.02
_SERVERS_END_S = 20.0
_PAUSED_S_MAX = 25.0  # then a host goes on that was to wait for batches of others: it may be needed for these


@dataclass(slots=True)
class _Life:
    """One history under way."""

    history: History
    folder: Path
    seen: Seen = field(default_factory=Seen)
    driver: int = 0
    rescaled: bool = False  # whether it goes on with another number of shards
    told: list[str] = field(default_factory=list)  # what happened, for the story
    struck: set[int] = field(default_factory=set)  # faults, by number
    moving: dict[int, dict[str, Any]] = field(default_factory=dict)  # those that began with a move, and from where to
    away: dict[int, int | None] = field(default_factory=dict)  # hosts, and how many batches must be done till they come
    paused: dict[int, tuple[int, float]] = field(default_factory=dict)  # the same, and until when at the latest
    ended: bool = False

    @property
    def holding(self) -> Holding:
        return Holding(folder=self.folder / HOLDS, holds=[fault.hold for fault in self.history.faults])


class World:
    """Hosts, and a driver that runs the graph there; for the length of a ``with``.

    ``java`` are further options of every Java there is.
    """

    def __init__(self, hosts: int, *, java: str = "") -> None:
        self._cluster = Cluster(hosts, java=java)
        self._java = java
        self._driver: DriverProcess | None = None
        self._lived = 0

    def __enter__(self) -> Self:
        self._files = Path(tempfile.mkdtemp(prefix="spillway-soak-"))
        self._memory = make_temporary("soak-", graph="a soak of hosts")
        try:
            self._wanted: dict[int, Outputs] = {}
            self._cluster.start()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._end_driver()
        self._cluster.stop()
        for folder in (self._files, self._memory):
            shutil.rmtree(folder, ignore_errors=True)

    # -- one history --------------------------------------------------------------------------------------------------

    def live(self, history: History) -> Verdict:
        """Run the graph, do to the hosts what the history says, and judge what came of it; then all hosts are back."""
        began_s = time.monotonic()
        if self._lived % _HISTORIES_PER_DRIVER == 0:
            self._end_driver()
        self._have_driver(all_hosts=True)
        life = _Life(history, self._files / f"history-{self._lived}")
        life.holding.folder.mkdir(parents=True)
        self._lived += 1
        try:
            self._begin(life)
            self._follow(life)
            if history.rescale is not None and not life.seen.error:
                life.ended, life.rescaled, life.driver = False, True, life.driver + 1
                self._begin(life)
                self._follow(life)
        except StuckError as stuck:
            life.seen.error = life.seen.error or str(stuck)
            self._end_driver()
        took_s = time.monotonic() - began_s
        self._look_back(life)
        broken = judge(life.seen, self._wanted_of(history), quiet=history.quiet)
        self._restore(life)
        shutil.rmtree(life.folder, ignore_errors=True)
        hosts = len(self._cluster.hosts)
        story = (
            story_of(broken, history=history.sentence(), told=life.told, seed=history.seed, hosts=hosts)
            if broken
            else ""
        )
        handed = sum(move.handed_over for move in life.seen.moves)
        return Verdict(
            history=history,
            story=story,
            moves=len(life.seen.moves),
            handed_over=handed,
            recoveries=sum(row.recovered for row in life.seen.rows),
            struck=len(life.struck),
            seconds=took_s,
        )

    def _begin(self, life: _Life) -> None:
        assert self._driver is not None
        holds = [None if hold is None else asdict(hold) for hold in life.holding.holds]
        change = life.history.rescale
        self._driver.tell(
            "begin",
            folder=str(life.folder),
            batches=BATCHES if change is None or life.rescaled else change.batch,
            shards=SHARDS if change is None or not life.rescaled else change.shards,
            rescale=life.rescaled,
            delay_max_s=life.history.delay_max_s,
            holds=holds,
        )

    def _wanted_of(self, history: History) -> Outputs:
        """What an undisturbed run puts out that has as many shards in every batch."""
        change = history.rescale
        before = self._undisturbed(SHARDS)
        if change is None:
            return before
        after = self._undisturbed(change.shards)
        return {
            sink: {batch: (before if batch < change.batch else after)[sink][batch] for batch in batches}
            for sink, batches in before.items()
        }

    def _undisturbed(self, shards: int) -> Outputs:
        if shards not in self._wanted:
            self._wanted[shards] = undisturbed(self._files / f"undisturbed-{shards}", batches=BATCHES, shards=shards)
        return self._wanted[shards]

    def _follow(self, life: _Life) -> None:
        told, heard_s = len(life.told), time.monotonic()
        while not life.ended:
            assert self._driver is not None
            event = self._driver.soon(seconds_max=_LOOK_S)
            if event is not None:
                self._take(life, event)
            if len(life.told) != told:
                told, heard_s = len(life.told), time.monotonic()
            elif time.monotonic() > heard_s + SILENCE_S_MAX:
                raise StuckError(f"nothing has happened for {SILENCE_S_MAX:g} s")
            self._strike_due(life)
            self._bring_back(life)

    def _bring_back(self, life: _Life) -> None:
        done = life.seen.batches
        for host in [host for host, batch in life.away.items() if batch is not None and done >= batch]:
            del life.away[host]
            self._note(life, f"host {host} is back")
            self._cluster.start_worker(host)
        now_s = time.monotonic()
        for host in [host for host, (batch, latest_s) in life.paused.items() if done >= batch or now_s > latest_s]:
            del life.paused[host]
            self._note(life, f"host {host} goes on")
            self._cluster.resume(host)

    def _take(self, life: _Life, event: dict[str, Any]) -> None:
        match event["event"]:
            case "rows":
                life.seen.take(event, driver=life.driver)
                self._note(life, f"{life.seen.batches} batches are done")
            case "ended":
                life.ended, life.seen.error = True, event["error"]
                life.seen.waits += event.get("waits", ())
                for what in [*event.get("waits", ()), *event.get("troubles", ())]:
                    self._note(life, what)
            case _:
                self._note(life, json.dumps(event))

    def _note(self, life: _Life, what: str) -> None:
        life.told.append(f"  {time.monotonic() % 1000:.2f} s: {what}")

    # -- what is done to hosts ----------------------------------------------------------------------------------------

    def _strike_due(self, life: _Life) -> None:
        for number, fault in enumerate(life.history.faults):
            if life.ended or number in life.struck or life.seen.batches < fault.batch:
                continue
            if fault.kind in MOVES and number not in life.moving:
                options = {"operator": fault.operator, "shard": fault.shard, "other": fault.other}
                life.moving[number] = self._ask(life, "move", **options)
            held = life.holding.held(number) if fault.step is not None else ""
            if held is not None:
                life.struck.add(number)
                if fault.step is None:
                    time.sleep(fault.after_s)
                self._note(life, fault.sentence())
                try:
                    self._strike(life, fault, self._struck(fault, held), life.moving.get(number, {}))
                finally:
                    life.holding.let_go(number)

    def _struck(self, fault: Fault, held: str) -> int:
        """The host: the one at whose step it is, if it is at a host's."""
        hosts, at = self._cluster.hosts, Path(held).name
        return hosts.index(at) if at in hosts else fault.host

    def _strike(self, life: _Life, fault: Fault, host: int, moving: dict[str, Any]) -> None:
        cluster = self._cluster
        match fault.kind:
            case Kind.EXECUTOR | Kind.WIPED:
                self._kill_executor(life, host, wiped=fault.wiped)
            case Kind.GONE:
                self._take_away(life, fault, host)
            case Kind.TWO_GONE:
                self._take_away(life, fault, host)
                other = fault.other if fault.other != host else fault.host
                # The other one is back sooner or later: the first may not be, and one more may go.
                self._take_away(life, fault, other, back_after=fault.back_after or 1)
            case Kind.DRIVER | Kind.DRIVER_AND_HOST | Kind.DRIVER_IN_MOVE:
                for event in self._end_driver():
                    if event["event"] == "rows":
                        self._take(life, event)
                if fault.kind is Kind.DRIVER_AND_HOST:
                    self._take_away(life, fault, host)
                life.driver += 1
                self._have_driver(all_hosts=False)
                self._begin(life)
            case Kind.PAUSED:
                self._pause(life, fault, host)
            case Kind.DRAINED:
                self._ask(life, "drain", host=cluster.hosts[host])
            case Kind.SOURCE_KILLED | Kind.TARGET_KILLED:
                end = moving.get("source" if fault.kind is Kind.SOURCE_KILLED else "target")
                if end is not None:
                    self._kill_executor(life, cluster.hosts.index(end), wiped=fault.wiped)

    def _pause(self, life: _Life, fault: Fault, host: int) -> None:
        if host in life.away or host in life.paused:
            return
        self._cluster.pause(host)
        if fault.back_after is not None:
            life.paused[host] = (life.seen.batches + 1 + fault.back_after, time.monotonic() + _PAUSED_S_MAX)
            return
        try:
            time.sleep(fault.paused_s)
        finally:
            self._cluster.resume(host)

    def _ask(self, life: _Life, what: str, **options: Any) -> dict[str, Any]:
        """Ask the driver, and hear what it says first of other things."""
        assert self._driver is not None
        self._driver.tell(what, **options)
        while True:
            event = self._driver.next(seconds_max=_START_S_MAX)
            self._take(life, event)
            if event["event"] in ("asked", "refused"):
                return event

    def _kill_executor(self, life: _Life, host: int, *, wiped: bool) -> None:
        if host in life.away or host in life.paused:
            return
        self._cluster.kill_executor(host)
        if wiped:
            self._cluster.wipe_memory(host)

    def _take_away(self, life: _Life, fault: Fault, host: int, *, back_after: int | None = None) -> None:
        staying = {*range(len(self._cluster.hosts))} - life.away.keys() - {host}
        if host in life.away or not staying:
            return
        life.paused.pop(host, None)
        back_after = fault.back_after if back_after is None else back_after
        self._cluster.kill_worker(host)
        if fault.wiped:
            self._cluster.wipe_memory(host)
        life.away[host] = None if back_after is None else life.seen.batches + back_after

    # -- drivers ------------------------------------------------------------------------------------------------------

    def _have_driver(self, *, all_hosts: bool) -> None:
        """Have a driver, to which all hosts show an executor if that is wanted."""
        wanted = len(self._cluster.hosts)
        if self._driver is None:
            self._driver = DriverProcess(self._cluster.url, memory=self._memory, java=self._java)
            self._driver.next(seconds_max=_START_S_MAX)
        if all_hosts:
            self._driver.tell("hosts", count=wanted, seconds_max=_START_S_MAX / 2)
            event = self._driver.next(seconds_max=_START_S_MAX)
            if len(event["hosts"]) != wanted:
                raise StuckError(f"only {event['hosts']} are there")

    def _end_driver(self) -> list[dict[str, Any]]:
        """Kill the driver, if there is one; returns what it had told and nobody has heard yet."""
        driver, self._driver = self._driver, None
        return [] if driver is None else driver.kill()

    # -- afterwards ---------------------------------------------------------------------------------------------------

    def _look_back(self, life: _Life) -> None:
        """What is left of the run."""
        seen, out = life.seen, life.folder / "out"
        if seen.error:
            return
        files = [path for path in out.glob("*/batch=*/*") if path.suffix != ".parquet"]
        seen.strays = [str(path.relative_to(out)) for path in files]
        if not files:
            seen.outputs = outputs(out)
        else:
            seen.error = f"the output has files that are no part of it: {seen.strays}"
        until_s = time.monotonic() + _SERVERS_END_S
        while (servers := self._servers()) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        seen.servers = servers
        seen.memory = self._foreign_memory(life)

    def _servers(self) -> list[int]:
        """The processes that hand memory over."""
        found = [process for index in range(len(self._cluster.hosts)) for process in self._cluster.processes(index)]
        return [process for process in found if b"hand_over_server" in _command(process)]

    def _foreign_memory(self, life: _Life) -> list[str]:
        """Memory of shards at hosts that do not own them."""
        table = read_table(open_folder(str(life.folder / "backups"), NAME))
        assert table is not None, "a run on several hosts notes who owns what"
        foreign = []
        for index, host in enumerate(self._cluster.hosts):
            for path in sorted(self._cluster.memory_root(index).glob(f"*/{NAME}/*/*")):
                named, rows = memory_named(path.name), table.rows[path.parent.name]
                if named is not None and not owns(rows, host, named):
                    foreign.append(f"{path.parent.name}/{path.name} at {host}")
        return foreign

    def _restore(self, life: _Life) -> None:
        """All hosts are back, and nothing of the run is in their memory."""
        for index in range(len(self._cluster.hosts)):
            self._cluster.resume(index)
        for host in life.away:
            self._cluster.start_worker(host)
        for index in range(len(self._cluster.hosts)):
            self._cluster.wipe_memory(index)


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended
