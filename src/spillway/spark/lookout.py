"""Which hosts of a cluster a run can use now, and which memory each of them has.

A host that shows an executor, and did not at the last look, is asked which memory is its own and whether it sees what
all must see (see ``probing``). One that has another memory than before has lost it. One that cannot be used is asked
again later.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spillway.clock import Clock
from spillway.errors import RunError
from spillway.spark.hosts import hosts_seen
from spillway.spark.memory_place import MemoryPlace
from spillway.spark.probing import PROBE_S_MAX, check_seen, probe

SETTLED_S = 1.0
"""Before owners are given out for the first time, no other host may have come for so long."""
HOSTS_S_MAX = 120.0
"""How long a run that begins waits for the first one."""

_LOOK_S = 0.05
_PROBE_AGAIN_S = 10.0  # how long hosts that have come back have to answer,
_NEWCOMER_S = 2.0  # and how long those that own nothing: the batch could go on without them
_AVOIDED_S = 30.0  # those that have trouble are asked again after so long,
_SILENT_S = 1.0  # those that own shards and did not answer after so long,
_NEWCOMER_AGAIN_S = 5.0  # and the others that did not


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen."""

    hosts: frozenset[str]  # that can be used
    lost: frozenset[str]  # those of them that have lost their memory since the last look


class Lookout:
    """Looks at the hosts of one run.

    shared      folders that all hosts must see, beside the backups
    owns        whether shards of the run wait for a host
    sweeping    what a host that has come does first (see ``sweeping``)
    trouble     is told of what keeps a host from being used
    stopping    whether the run is to end, and nobody need wait any longer
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        memory: MemoryPlace,
        backups: str | None,
        shared: Iterable[str],
        owns: Callable[[str], bool],
        sweeping: Callable[[], Callable[[], None]],
        trouble: Callable[[str], None],
        stopping: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._spark = spark
        self._memory = memory
        self._backups = backups
        self._shared = tuple(shared)
        self._owns = owns
        self._sweeping = sweeping
        self._trouble = trouble
        self._stopping = stopping
        self._clock = clock
        self.memories: dict[str, str] = {}
        """The ids of hosts' memories, as last heard."""
        self._asked: frozenset[str] = frozenset()  # hosts that have answered since they came
        self._avoided: dict[str, float] = {}  # those that had trouble, and until when nobody asks them again

    def first(self) -> Look:
        """Look once no other host has come for a while; refused if one of them does not see what all must see."""
        hosts, since_s = hosts_seen(self._spark.sparkContext), self._clock.monotonic_s()
        until_s = since_s + HOSTS_S_MAX
        while self._clock.monotonic_s() < since_s + SETTLED_S or not hosts:
            if not hosts and self._clock.monotonic_s() > until_s:
                raise RunError(
                    f"No host has shown an executor for {HOSTS_S_MAX:g} s. Has the cluster workers, with as many cores "
                    f"and as much memory as this application's executors ask for?"
                )
            self._pause()
            now = hosts_seen(self._spark.sparkContext)
            if now != hosts:
                hosts, since_s = now, self._clock.monotonic_s()
        return self._look(hosts, strict=True)

    def look(self) -> Look:
        """See who is there; who was not at the last look is asked."""
        return self._look(hosts_seen(self._spark.sparkContext))

    def there(self) -> dict[str, str]:
        """The hosts that can be used, and the ids of their memories."""
        return {host: self.memories[host] for host in self.look().hosts}

    def forget(self) -> None:
        """Whoever is there is asked again which memory is theirs."""
        self._asked = frozenset()

    def wait(self, until_s: float) -> None:
        """Until then, or until other hosts are there, or one is to be asked again."""
        there = hosts_seen(self._spark.sparkContext)
        # One that came since the last look has not been asked at all.
        until_s = min([until_s, *(self._avoided.get(host, 0.0) for host in there - self._asked)])
        while self._clock.monotonic_s() < until_s and hosts_seen(self._spark.sparkContext) == there:
            self._pause()

    def _look(self, hosts: frozenset[str], *, strict: bool = False) -> Look:
        now_s = self._clock.monotonic_s()
        fresh = {host for host in hosts - self._asked if self._avoided.get(host, now_s) <= now_s}
        self._asked &= hosts
        if not fresh:
            return Look(hosts=self._asked, lost=frozenset())
        answers = probe(
            self._spark,
            backups=self._backups,
            others=self._shared,
            root=self._memory.root,
            tls=self._memory.tls,
            hosts=fresh,
            then=self._sweeping(),
            seconds_max=PROBE_S_MAX if strict else _PROBE_AGAIN_S if any(map(self._owns, fresh)) else _NEWCOMER_S,
        )
        if strict:
            check_seen(answers)
        usable, lost = set(self._asked), set()
        for host, seen in answers.items():
            if seen.trouble:
                self._trouble(seen.trouble)
                # A host that has just come may be slow to answer, and what it owns waits for it.
                silent_s = _SILENT_S if self._owns(host) else _NEWCOMER_AGAIN_S
                self._avoided[host] = self._clock.monotonic_s() + (_AVOIDED_S if seen.memory_id else silent_s)
                continue
            usable.add(host)
            if self.memories.get(host, seen.memory_id) != seen.memory_id:
                lost.add(host)
            self.memories[host] = seen.memory_id
        self._asked = frozenset(usable)
        return Look(hosts=self._asked, lost=frozenset(lost))

    def _pause(self) -> None:
        if self._stopping():
            raise RunError("The run was stopped while it waited for a host.")
        time.sleep(_LOOK_S)
