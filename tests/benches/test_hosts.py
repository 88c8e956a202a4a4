"""The bench of many hosts: what it finds out about owners is what there is, whatever the machine."""

from typing import Any

import pytest

from spillway.benches.bench import Notes
from spillway.benches.hosts import Hosts
from spillway.benches.pinned_stages import summary as stages
from spillway.benches.simulated_hosts import Simulation, losing, summary, told
from spillway.errors import GraphError
from spillway.protocols.placement import Owner
from spillway.records.bench import BenchRecords, recorded
from spillway.seeds import generator
from spillway.spark.telling import read

SETTINGS: dict[str, Any] = {
    "simulate": 7,
    "shards_per_host": 6,
    "state_mb_per_shard": 2.0,
    "backup_every": 3,
    "backup_share": 0.5,
    "batch_s": 2.0,
}


def simulated(*, seed: int = 1) -> BenchRecords:
    notes = Notes()
    Simulation(hosts=7, shards_per_host=6, losses=(1, 5), repetitions=2, random=generator(seed, "test")).measure(
        notes, lambda told: None
    )
    return recorded("hosts", settings=SETTINGS, samples=notes.samples, about={}, seconds=1.0)


def test_what_moves_is_what_was_lost_spread_over_those_that_live() -> None:
    found = summary(simulated())
    assert (found["hosts"], found["shards"], found["state_bytes"]) == (7, 42, 84e6)
    one, five, joined = (found["changes"][name] for name in (losing(1), losing(5), "one joins"))
    # Six shards to six hosts, one each; thirty to the two that are left; six from each of six to the one that joins.
    assert (one["moves"], one["moves_to_one_max"], one["moves_to_one_max_over_mean"]) == (6, 1, 1.0)
    assert (five["moves"], five["moves_to_one_max"], five["shards_of_one_max_over_mean"]) == (30, 15, 1.0)
    assert (joined["moves"], joined["moves_to_one_max"], joined["one_host_bytes"]) == (6, 6, 12e6)
    assert (five["bytes"], five["one_host_bytes"]) == (60e6, 30e6)
    # 42 shards, each every 6 s, half of 2 MB.
    assert found["backups"]["per_s"] == 7 and found["backups"]["files_per_s"] == 14
    assert found["backups"]["bytes_per_s"] == 7e6 and found["backups"]["bytes_per_s_of_a_host"] == 1e6
    assert [*found["decide_s"]][-2:] == ["1 is lost", "5 are lost"]
    assert all(seconds > 0 for seconds in found["decide_s"].values())


def test_what_pinning_adds_to_a_task_grows_with_their_number() -> None:
    notes = Notes()
    for size, pinned_s in (("10", 1.5), ("100", 24.0)):
        for measure, value in (("free_s", int(size) / 10), ("pinned_s", pinned_s), ("naming_s", int(size) / 100)):
            notes.add(size, measure, value)
    found = stages(recorded("hosts", settings=SETTINGS, samples=notes.samples, about={}, seconds=1.0))["extrapolated"]
    assert (found["tasks"], found["begin_s"], found["naming_s"]) == (42, pytest.approx(4.2), pytest.approx(0.42))
    # 50 ms more for each of 10 tasks, 140 ms for each of 100: 1 ms for every other. 82 ms of 42, for 6 tasks of a host.
    assert found["host_s"] == pytest.approx(0.082 * 6)


def test_a_seed_decides_who_is_lost() -> None:
    def chosen(seed: int) -> set[str]:
        names = [f"host-{index}" for index in range(1_000)]
        random = generator(seed, "test")
        return Simulation(hosts=1_000, shards_per_host=1, losses=(), repetitions=1, random=random)._chosen(names, 10)

    assert chosen(1) == chosen(1) != chosen(2)
    assert len(chosen(1)) == 10


def test_tasks_are_told_what_there_is() -> None:
    owners = {("a", 0): Owner("x", 0), ("a", 1): Owner("y", 3), ("b", 0): Owner("y", 1)}
    words = told(owners)
    found = {name: [(one.host, one.epoch) for one in of_operator] for name, of_operator in read(words).items()}
    assert found == {"a": [("x", 0), ("y", 3)], "b": [("y", 1)]}
    telling = summary(simulated())["telling"]
    assert telling["with_every_task_bytes"] == 42 * telling["bytes"] > 42 * 42
    assert telling["own_alone_bytes"] == 42 * 60


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"simulate": 1}, "simulate is a number of hosts, from 2 to 10,000; got 1"),
        ({"simulate": 10_001}, "from 2 to 10,000; got 10,001"),
        ({"simulate": 100}, "losses are of fewer hosts than the 100 there are; got 100"),
        ({"simulate": 10_000, "shards_per_host": 201}, "more than 2,000,000 shards"),
        ({"simulate": 1_000, "losses": (0,)}, "losses must be a whole number, 1 or more; got 0"),
        ({"simulate": 1_000, "batch_s": 0.0}, "batch_s must be a number above zero"),
    ],
)
def test_what_cannot_be_simulated_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        Hosts(**given)
