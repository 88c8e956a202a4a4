"""A real cluster of three hosts on this machine: who is where, which memory is whose, and tasks that stay."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.spark.cluster_driver import Driver
from tests.spark_archive import java_options
from tests.waiting import waited_for

from spillway.soak.host_holds import HOLDS, Holding
from spillway.spark.standalone import Cluster
from spillway.state.folders import memory_id

pytestmark = [pytest.mark.spark, pytest.mark.kill]

FIRST, SECOND, THIRD = HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
PLACES = [[FIRST, SECOND, THIRD], [SECOND, THIRD, FIRST]]
WANTED = {f"{stage}/{shard}": host for stage, places in enumerate(PLACES) for shard, host in enumerate(places)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(hosts=3, java=java_options()) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(cluster.url, tmp_path_factory.mktemp("driver"))
    try:
        yield driver
    finally:
        driver.close()


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder


def test_hosts_are_those_of_executors_without_the_driver(driver: Driver, cluster: Cluster) -> None:
    assert cluster.hosts == HOSTS
    assert driver.ask("hosts", count=3) == [*HOSTS]


def test_each_host_tells_its_own_memory_and_sees_the_backups(driver: Driver, cluster: Cluster, backups: Path) -> None:
    driver.ask("hosts", count=3)
    told = driver.ask("probe", backups=str(backups))
    assert told["memories"] == {host: memory_id(cluster.memory_root(index)) for index, host in enumerate(HOSTS)}
    assert len({*told["memories"].values()}) == 3
    assert told["refused"] == ""
    assert [*backups.iterdir()] == []
    assert driver.ask("probe", backups=None, hosts=[SECOND])["memories"] == {SECOND: told["memories"][SECOND]}


def test_a_host_that_does_not_see_the_backups_is_told(driver: Driver, cluster: Cluster, backups: Path) -> None:
    # A folder that each process has for itself: the driver's and two hosts' lead to one, the third host has none.
    own = "/proc/self/cwd/shared"
    driver.ask("hosts", count=3)
    Path(driver.folder, "shared").symlink_to(backups)
    for index in (0, 1):
        executor = next(pid for pid in cluster.processes(index) if is_executor(pid))
        Path(f"/proc/{executor}/cwd/shared").symlink_to(backups)
    told = driver.ask("probe", backups=own)
    assert told["troubles"][FIRST] == told["troubles"][SECOND] == ""
    assert told["troubles"][THIRD] == told["refused"]
    assert told["refused"] == (
        f"Host {THIRD} cannot read what the driver put into the backups folder {own} (No such file or directory). Name "
        f"a folder that all hosts can reach with backups=."
    )
    assert all(told["memories"].values())
    assert [*backups.iterdir()] == []


def is_executor(pid: int) -> bool:
    return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_pinned_tasks_stay_where_they_are_wanted(driver: Driver) -> None:
    driver.ask("hosts", count=3)
    assert driver.ask("stream", batches=6, places=PLACES) == [WANTED] * 6
    free = driver.ask("stream", batches=6, places=[[None] * 3] * 2)
    assert [{*batch} for batch in free] == [{*WANTED}] * 6
    assert any(batch != WANTED for batch in free), "Spark itself would have kept them there"


def test_a_session_whose_tasks_may_run_twice_at_once_is_refused(driver: Driver, tmp_path: Path) -> None:
    driver.ask("hosts", count=3)
    said = driver.ask("speculates", folder=str(tmp_path / "checkpoint"))
    assert said.startswith("This session has spark.speculation=true: Spark would run a task a second time")
    assert [*tmp_path.iterdir()] == []


def test_a_frame_that_is_pinned_has_the_rows_it_had(driver: Driver) -> None:
    assert driver.ask("leaves_frames_alone")
    # A host that is not there is waited for, and then Spark takes another.
    assert driver.ask("answers", places=[FIRST, None, "127.0.0.99", THIRD]) == [*range(12)]


def test_a_host_that_does_not_answer_is_told_and_asked_again(driver: Driver, cluster: Cluster) -> None:
    driver.ask("hosts", count=3)
    known = driver.ask("probe", backups=None)["memories"]
    cluster.pause(1)
    try:
        told = driver.ask("probe", backups=None, seconds_max=4.0)
    finally:
        cluster.resume(1)
    assert told["memories"] == known | {SECOND: ""}
    assert told["refused"].startswith(f"Host {SECOND} did not answer within 4 s.")
    assert driver.ask("probe", backups=None)["memories"] == known


def test_memory_outlives_executors_and_workers_but_not_its_loss(driver: Driver, cluster: Cluster) -> None:
    driver.ask("hosts", count=3)
    known = driver.ask("probe", backups=None)["memories"]
    before = {*cluster.processes(0)}
    cluster.kill_executor(0)
    assert len(before & {*cluster.processes(0)}) == 1  # the worker
    driver.ask("hosts", count=2)
    driver.ask("hosts", count=3)
    assert driver.ask("probe", backups=None)["memories"] == known
    assert driver.ask("stream", batches=2, places=PLACES) == [WANTED] * 2

    cluster.kill_worker(0)
    assert cluster.processes(0) == []
    assert driver.ask("hosts", count=2) == [SECOND, THIRD]
    for batch in driver.ask("stream", batches=1, places=PLACES, wait_s=0.5):
        assert {place for place, host in batch.items() if host != WANTED[place]} == {"0/0", "1/2"}
    cluster.start_worker(0)
    assert driver.ask("hosts", count=3) == [*HOSTS]
    assert driver.ask("probe", backups=None)["memories"] == known
    cluster.wipe_memory(0)
    assert [
        host for host, memory in driver.ask("probe", backups=None)["memories"].items() if memory != known[host]
    ] == [FIRST]


def test_jobs_on_several_hosts_of_which_one_is_lost(driver: Driver, cluster: Cluster, tmp_path: Path) -> None:
    driver.ask("hosts", count=3)
    driver.ask("begin_jobs", folder=str(tmp_path))
    holding = Holding(folder=tmp_path / HOLDS, holds=())
    assert waited_for(lambda: holding.held(0) is not None)
    cluster.kill_worker(1)
    cluster.wipe_memory(1)
    cluster.start_worker(1)
    holding.let_go(0)
    ended = driver.ask("end_jobs", folder=str(tmp_path))
    assert ended["differs"] == []
    assert ended["rewound"], "none of them had lost anything"


def test_a_host_with_a_replica_of_each_of_two_groups_is_lost(driver: Driver, cluster: Cluster, tmp_path: Path) -> None:
    driver.ask("hosts", count=3)
    driver.ask("begin_groups", folder=str(tmp_path))
    holding = Holding(folder=tmp_path / HOLDS, holds=())
    begun = waited_for(lambda: holding.held(1) is not None and len(driver.ask("owners")) == 4, seconds_max=240)
    assert begun, "five queries start one after the other"
    owners = driver.ask("owners")
    hosts = {group: {owners[f"{group}-0"], owners[f"{group}-1"]} for group in ("first", "second")}
    assert all(len(apart) == 2 for apart in hosts.values()), "replicas of a group are on different hosts"
    (lost, *_) = sorted(hosts["first"] & hosts["second"])
    cluster.kill_worker(HOSTS.index(lost))
    cluster.wipe_memory(HOSTS.index(lost))
    cluster.start_worker(HOSTS.index(lost))
    for replica in (0, 1):
        holding.let_go(replica)
    ended = driver.ask("end_groups", folder=str(tmp_path))
    assert ended["same"], ended["told"]
    assert {name for name, host in owners.items() if host == lost} <= {*ended["moved"]}, "none of them lost anything"


def test_memory_goes_from_host_to_host_with_tls(driver: Driver, tmp_path: Path) -> None:
    driver.ask("hosts", count=3)
    authority = Authority(tmp_path / "authority")
    all_of_them = authority.signs("hosts", hosts=tuple(f"IP:{host}" for host in HOSTS))
    but_one = authority.signs("but-one", hosts=(f"IP:{FIRST}", f"IP:{SECOND}"))
    for name, shown in (("refused", but_one), ("handed", all_of_them)):
        files = {kind: str(file) for kind, file in authority.tls(shown).files().items()}
        told = driver.ask("hands_over", folder=str(tmp_path / name), tls=files)
        if name == "refused":
            assert told["refused"].startswith(f"Host {THIRD} cannot hand memory over. TLS: ")
            assert f"not valid for '{THIRD}'" in told["refused"]
        else:
            assert len(told["bytes"]) == 1 and told["bytes"][0] > 0 and not told["troubles"]


def test_nothing_listens_beyond_this_machine(cluster: Cluster, driver: Driver) -> None:
    driver.ask("hosts", count=3)
    ours = {inode for index in range(3) for pid in cluster.processes(index) for inode in sockets_of(pid)}
    listening = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()
    ]
    bound = {fields[1].partition(":")[0] for fields in listening if fields[3] == "0A" and fields[9] in ours}
    # Addresses are written in the machine's order, four bytes at a time: 127.0.0.2 ends, or is, 0200007F.
    assert {address[-8:] for address in bound} == {f"0{end}00007F" for end in (2, 3, 4)}


def sockets_of(pid: int) -> Iterator[str]:
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]
