"""What several hosts cost: a real cluster of three, all of them this machine (``real_hosts``).

With ``--simulate`` what many would: the state machine that places shards, with as many hosts as one likes, the records
of so many shards, and Spark's own stages of as many tasks as this machine can bear.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from spillway.benches import many_records, pinned_stages, real_hosts, simulated_hosts
from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.errors import GraphError
from spillway.records.bench import BenchRecords
from spillway.seeds import generator

HOSTS_MAX = 10_000
SHARDS_MAX = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts(Bench):
    """Subjects are what happens to hosts."""

    NAME: ClassVar[str] = "hosts"
    MEANING: ClassVar[str] = "what several hosts cost, whether shards stay on them, and how long it takes to move one"

    batches: int = option(200, "batches on three hosts, and on one")
    tuples_per_batch: int = option(100_000, "tuples of each")
    turns: int = option(2, "times that three hosts and one are compared")
    keys: tuple[int, ...] = option((100_000, 500_000, 1_000_000, 2_000_000, 5_000_000), "of shards that are moved")
    simulate: int = option(0, "hosts of a cluster that is simulated instead", least=0)
    shards_per_host: int = option(100, "simulated: shards of a host")
    losses: tuple[int, ...] = option((1, 10, 100), "simulated: hosts that are lost at once, fewer than there are")
    state_mb_per_shard: float = option(10.0, "simulated: state of a shard, MB, for traffic")
    backup_every: int = option(10, "simulated: batches between two backups of a shard, for traffic")
    backup_share: float = option(0.05, "simulated: share of a shard's state that a backup writes, for traffic")
    batch_s: float = option(1.0, "simulated: seconds of a batch, for traffic")
    tasks: tuple[int, ...] = option((500, 4_000), "simulated: tasks of stages on Spark, here, that do nothing")
    repetitions: int = option(5, "simulated: times that everything happens")
    seed: int = option(1, "simulated: of which hosts are lost", least=0)

    def __post_init__(self) -> None:
        Bench.__post_init__(self)
        if not self.simulate:
            return
        if not 2 <= self.simulate <= HOSTS_MAX:
            raise GraphError(
                f"bench hosts: simulate is a number of hosts, from 2 to {HOSTS_MAX:,}; got {self.simulate:,}."
            )
        if self.simulate * self.shards_per_host > SHARDS_MAX:
            raise GraphError(
                f"bench hosts: {self.simulate:,} hosts of {self.shards_per_host:,} shards are more than "
                f"{SHARDS_MAX:,} shards."
            )
        if max(self.losses) >= self.simulate:
            most = max(self.losses)
            raise GraphError(
                f"bench hosts: losses are of fewer hosts than the {self.simulate:,} there are; got {most:,}."
            )

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        if not self.simulate:
            return real_hosts.RealHosts(
                batches=self.batches,
                tuples_per_batch=self.tuples_per_batch,
                keys=self.keys,
                repetitions=self.turns,
            ).measure(notes, tell)
        simulated_hosts.Simulation(
            hosts=self.simulate,
            shards_per_host=self.shards_per_host,
            losses=self.losses,
            repetitions=self.repetitions,
            random=generator(self.seed, "bench", "hosts"),
        ).measure(notes, tell)
        many_records.measure_records(
            hosts=self.simulate,
            shards_per_host=self.shards_per_host,
            repetitions=self.repetitions,
            random=generator(self.seed, "bench", "records"),
            notes=notes,
            tell=tell,
        )
        return pinned_stages.measure_stages(self.tasks, repetitions=self.repetitions, notes=notes, tell=tell)

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        if not records.settings["simulate"]:
            return {"real": real_hosts.summary(records)}
        return {
            "simulated": simulated_hosts.summary(records),
            "records": many_records.summary(records),
            "stages": pinned_stages.summary(records),
        }
