"""Memory handed over between the hosts of a cluster: servers at the sources, tasks at the targets that fetch.

    serve      each source starts a server for what is to be handed over (``engine.hand_over_server``)
    fetch      each target copies what is to be its own into the folder of the new epoch
    let go     once the new owners are durable: each source removes what it no longer owns, and its server ends

All three are asked of hosts as ``asking`` does, so they may be done twice and on hosts that were not meant: whoever is
not in a plan does nothing. A server that nobody stops ends when it has been idle for a while, or with its executor.
The driver may be a source or a target, too (``engine.gathering``): what it is asked it does itself.
"""

import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from spillway.engine.epochs import shard_folder
from spillway.engine.gathering import DRIVER
from spillway.errors import SpillwayError
from spillway.protocols.placement import Move, Shard
from spillway.spark.asking import Answers, Asked, ask_hosts
from spillway.spark.hosts import driver_host
from spillway.spark.memory_place import MemoryPlace

FETCH_S_MAX = 600.0
"""How long all shards of one host may take together."""

_SERVE_S_MAX = 60.0
_LET_GO_S_MAX = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Handing:
    """One shard on its way."""

    move: Move
    epoch: int  # in which its memory is at the source
    operators: tuple[str, ...]  # of its group


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """What came of it."""

    trouble: str = ""  # a sentence, if it was not handed over
    bytes: int = 0
    seconds: float = 0.0


class HandOver:
    """Some shards that are handed over together; ``close`` ends the servers.

    ``served`` is called when the sources are ready to give what they have.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        graph: str,
        memory: MemoryPlace,
        handings: Sequence[Handing],
        served: Callable[[], None],
    ) -> None:
        self._spark = spark
        self._on_served = served
        self._graph = graph
        self._memory = memory
        self._handings = handings
        self._token = secrets.token_urlsafe(32)
        self._servers: dict[str, tuple[str, int]] = {}

    def run(self) -> dict[Shard, Handed]:
        """Copy all; nothing is removed at the sources."""
        sources = {handing.move.source for handing in self._handings}
        served = self._ask(
            sources, partial(_serve, sources=sources, memory=self._memory, token=self._token), seconds_max=_SERVE_S_MAX
        )
        refused = {host: f"Host {host} {served.silent}" for host in sources - served.of.keys()}
        for host, answer in served.of.items():
            if isinstance(answer, str):
                refused[host] = answer
            else:
                self._servers[host] = answer
        self._on_served()
        found = {
            one.move.shard: Handed(trouble=refused[one.move.source])
            for one in self._handings
            if one.move.source in refused
        }
        plans: dict[str, list[Any]] = defaultdict(list)
        for handing in self._handings:
            if handing.move.shard not in found:
                paths = [self._paths(handing, operator) for operator in handing.operators]
                plans[handing.move.to.host].append((handing.move.shard, self._servers[handing.move.source], paths))
        fetched = self._ask(
            plans,
            partial(_fetch, plans=dict(plans), memory=self._memory, token=self._token),
            seconds_max=FETCH_S_MAX,
        )
        for host, plan in plans.items():
            answers: Mapping[Shard, Handed] = fetched.of.get(host, {})
            for shard, _, _ in plan:
                found[shard] = answers.get(shard, Handed(trouble=f"Host {host} {fetched.silent}"))
        return found

    def close(self, done: Sequence[Shard] = ()) -> None:
        """End the servers; what is ``done``, and durable, goes at the sources."""
        if not self._servers:
            return
        gone: dict[str, list[str]] = {host: [] for host in self._servers}
        for handing in self._handings:
            if handing.move.shard in done:
                gone[handing.move.source] += [self._paths(handing, operator)[0] for operator in handing.operators]
        plans = {host: (self._servers[host], paths) for host, paths in gone.items()}
        # Whatever is not removed now is of an older epoch, which nobody reads.
        self._ask(
            plans, partial(_let_go, plans=plans, memory=self._memory, token=self._token), seconds_max=_LET_GO_S_MAX
        )

    def _ask(self, hosts: Iterable[str], ask: Asked, *, seconds_max: float) -> Answers:
        """Ask hosts, and the driver if it is among them."""
        wanted = {*hosts}
        answers = ask_hosts(self._spark, wanted - {DRIVER}, ask, seconds_max=seconds_max)
        if DRIVER in wanted:
            answers.of[DRIVER] = ask(DRIVER)
        return answers

    def _paths(self, handing: Handing, operator: str) -> tuple[str, str]:
        """Where the memory of a shard is, and where it goes to, below the run's folder."""
        root, index = self._memory.folder, handing.move.shard[1]
        epochs = (handing.epoch, handing.move.to.epoch)
        at, to = (shard_folder(root, self._graph, operator, index, epoch=epoch).relative_to(root) for epoch in epochs)
        return str(at), str(to)


# -- what hosts do ----------------------------------------------------------------------------------------------------


def _serve(host: str, *, sources: set[str], memory: MemoryPlace, token: str) -> tuple[str, int] | str:
    if host not in sources:
        return "It was not asked."
    from spillway.engine.hand_over_server import start_server

    try:
        if host == DRIVER:
            address = start_server(
                memory.folder, host=driver_host(), token=token, tls=memory.tls, while_pid=os.getpid()
            )
        else:
            # Spark's daemon, which forked this worker, ends with its executor.
            address = start_server(memory.folder, host=host, token=token, tls=memory.tls, while_pid=os.getppid())
    except SpillwayError as error:
        return str(error)
    return address.host, address.port


def _fetch(host: str, *, plans: Mapping[str, list[Any]], memory: MemoryPlace, token: str) -> dict[Shard, Handed]:
    from spillway.engine.handing_over import Address, fetch

    answers = {}
    for shard, (source, port), paths in plans.get(host, ()):
        address, total_bytes, seconds = Address(host=source, port=port, tls=memory.tls), 0, 0.0
        try:
            for at, to in paths:
                came = fetch(address, token, shard=at, to=memory.folder / to, seconds_max=FETCH_S_MAX)
                total_bytes, seconds = total_bytes + came.bytes, seconds + came.seconds
        except SpillwayError as error:
            for _, to in paths:
                shutil.rmtree(memory.folder / to, ignore_errors=True)
            answers[shard] = Handed(trouble=str(error))
        else:
            answers[shard] = Handed(bytes=total_bytes, seconds=seconds)
    return answers


def _let_go(host: str, *, plans: Mapping[str, Any], memory: MemoryPlace, token: str) -> str:
    from spillway.engine.handing_over import Address, release, stop

    if host not in plans:
        return ""
    (source, port), paths = plans[host]
    address = Address(host=source, port=port, tls=memory.tls)
    try:
        for path in paths:
            release(address, token, shard=path)
        stop(address, token)
    except SpillwayError as error:
        return str(error)
    return ""
