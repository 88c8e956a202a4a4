"""A Spark cluster of several hosts on this machine: a master on 127.0.0.1, workers on 127.0.0.2, 127.0.0.3, …

To Spark these are different hosts, and each has a memory root of its own (``SPILLWAY_MEMORY``), so that what is in the
memory of one is not in that of another. They can be killed, paused and robbed of their memory, each by itself.

Everything listens on loopback addresses and free ports only, but asks nobody who they are, as Spark does by default:
whoever has an account on this machine can run programs as the one who started the cluster.

Processes are found by a mark in their environment, and end with the one that started them: see ``guardian``.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from spillway.errors import SetupError
from spillway.spark import guardian
from spillway.spark.java import java_found
from spillway.state.folders import MEMORY_VARIABLE, make_temporary

HOSTS_MAX = 100
CORES_MAX = 1_000
START_S_MAX = 120.0
"""How long the master, and then the workers, may take to start."""

_MASTER = "127.0.0.1"
_MEMORY = re.compile(r"[1-9]\d{0,5}[mg]")
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Registering worker (\S+):\d+ with")
_LINES_KEPT = 50

# These do little, and start three times faster so.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Java's files of figures stay behind when it is killed.
    "-XX:-UsePerfData",
    "-Dspark.master.rest.enabled=false",
    # Executors are killed on purpose here, and after ten Spark would take the application for broken.
    "-Dspark.deploy.maxExecutorRetries=-1",
)


class Cluster:
    """A standalone cluster on loopback addresses, from ``start`` to ``stop``, or for the length of a ``with``.

    hosts       how many workers, each on an address of its own
    cores       of each worker, as Spark counts them: tasks at once
    memory      of each worker, for the executors that applications ask for (by default Spark asks for 1g)
    java        further options of the Java that master and workers run on
    """

    def __init__(self, hosts: int = 3, *, cores: int = 1, memory: str = "1g", java: str = "") -> None:
        if type(hosts) is not int or not 1 <= hosts <= HOSTS_MAX:
            raise SetupError(f"A cluster has from 1 to {HOSTS_MAX} hosts; got {hosts!r}.")
        if type(cores) is not int or not 1 <= cores <= CORES_MAX:
            raise SetupError(f"A host has from 1 to {CORES_MAX} cores; got {cores!r}.")
        if not _MEMORY.fullmatch(memory):
            raise SetupError(f"Memory of a host is written as 512m or 2g; got {memory!r}.")
        self.hosts = tuple(f"127.0.0.{index + 2}" for index in range(hosts))
        self.url = ""
        """What an application gives as its master, once the cluster has started."""
        self._cores, self._memory = cores, memory
        self._java = " ".join([*_JAVA_OPTIONS, java])
        self._mark = uuid.uuid4().hex
        self._heard = threading.Condition()
        self._registered: set[str] = set()
        self._daemons: dict[str, _Daemon] = {}  # by address
        self._held: set[str] = set()
        self._guardian: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start all, and return when every worker is known to the master."""
        if not hasattr(os, "pidfd_open"):
            raise SetupError("A cluster of loopback hosts needs Linux 5.3 or newer.")
        self._files = Path(tempfile.mkdtemp(prefix="spillway-cluster-"))
        self._memories = make_temporary("cluster-", graph="a cluster of loopback hosts")
        program = [sys.executable, "-I", guardian.__file__, f"{self._mark}/", str(self._files), str(self._memories)]
        # In a session of its own, as the others, so that an interrupt from the terminal is the starter's to hear.
        self._guardian = subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True)
        try:
            self._begin(_MASTER, "master.Master", "--host", _MASTER, "--port", "0", "--webui-port", "0")
            self._wait_for(_MASTER)
            for index in range(len(self.hosts)):
                self._begin_worker(index)
            for host in self.hosts:
                self._wait_for(host)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all that was started and remove its files; a cluster that has stopped stays so."""
        if self._guardian is None:
            return
        guarding, self._guardian = self._guardian, None
        guardian.end(f"{self._mark}/")
        for daemon in self._daemons.values():
            daemon.reap()
        self._daemons.clear()
        for folder in (self._files, self._memories):
            shutil.rmtree(folder, ignore_errors=True)
        assert guarding.stdin is not None
        with suppress(BrokenPipeError):
            guarding.stdin.close()
        guarding.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def memory_root(self, index: int) -> Path:
        """Where a host's memory is."""
        return self._memories / self.hosts[index]

    def processes(self, index: int) -> list[int]:
        """The living processes of a host: its worker, executors, and their Python."""
        return guardian.marked(self._mark_of(self.hosts[index]))

    # -- what can happen to a host ------------------------------------------------------------------------------------

    def kill_executor(self, index: int) -> None:
        """Kill a host's executors and their Python; its worker and memory stay, and Spark starts others there."""
        host = self.hosts[index]
        mark, worker = self._mark_of(host), self._daemons[host].pid
        # Held meanwhile, the worker starts no other executor that would be killed too.
        guardian.hold(mark, wanted=lambda process: process == worker)
        guardian.end(mark, wanted=lambda process: process != worker)
        if host not in self._held:
            guardian.go_on(mark, wanted=lambda process: process == worker)

    def kill_worker(self, index: int) -> None:
        """Kill everything on a host; its memory stays until it is wiped."""
        host = self.hosts[index]
        guardian.end(self._mark_of(host))
        self._held.discard(host)
        daemon = self._daemons.pop(host, None)
        if daemon is not None:
            daemon.reap()

    def start_worker(self, index: int) -> None:
        """Bring a host back whose worker was killed, with the memory it has."""
        assert self.hosts[index] not in self._daemons, "its worker has not been killed"
        self._begin_worker(index)
        self._wait_for(self.hosts[index])

    def wipe_memory(self, index: int) -> None:
        """Lose the memory of a host, as a machine that stops does; who has it open keeps what is no longer there."""
        root = self.memory_root(index)
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(mode=0o700, exist_ok=True)

    def pause(self, index: int) -> None:
        """Stop all processes of a host where they are."""
        guardian.hold(self._mark_of(self.hosts[index]))
        self._held.add(self.hosts[index])

    def resume(self, index: int) -> None:
        """Let a host that was paused go on."""
        self._held.discard(self.hosts[index])
        guardian.go_on(self._mark_of(self.hosts[index]))

    # -- how ----------------------------------------------------------------------------------------------------------

    def _mark_of(self, address: str) -> str:
        return f"{self._mark}/{address}/"

    def _begin_worker(self, index: int) -> None:
        host = self.hosts[index]
        self.memory_root(index).mkdir(mode=0o700, exist_ok=True)
        with self._heard:
            self._registered.discard(host)
        options = ["--host", host, "--port", "0", "--webui-port", "0"]
        options += ["--cores", str(self._cores), "--memory", self._memory]
        self._begin(host, "worker.Worker", *options, "--work-dir", str(self._files / host / "work"), self.url)

    def _begin(self, address: str, name: str, *options: str) -> None:
        folder = self._files / address
        (folder / "temporary").mkdir(parents=True, exist_ok=True)
        # Whatever else is set for a Spark of the user's is meant for another cluster.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        environment |= {
            guardian.VARIABLE: self._mark_of(address),
            MEMORY_VARIABLE: str(self._memories / address),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_CONF_DIR": str(self._settings()),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": self._java,
            # What is served, and what executors serve, is bound to this address.
            "SPARK_LOCAL_IP": address,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "TMPDIR": str(folder / "temporary"),
        }
        program = str(Path(environment["SPARK_HOME"], "bin", "spark-class"))
        command = [program, f"org.apache.spark.deploy.{name}", *options]
        self._daemons[address] = _Daemon(command, environment, self._hear)

    def _settings(self) -> Path:
        """A folder of settings that has none.

        The package has no such folder, unless somebody made one. Where there is none its name is the best: it is on the
        class path, and Java uses an archive of classes only with the class path it was made with.
        """
        of_package = Path(pyspark.__file__).parent / "conf"
        if not of_package.exists():
            return of_package
        own = self._files / "conf"
        own.mkdir(exist_ok=True)
        return own

    def _hear(self, line: str | None) -> None:
        """A line of a daemon's log; none when it has ended."""
        with self._heard:
            if line is not None and (started := _STARTED.search(line)):
                self.url = started[1]
            elif line is not None and (registered := _REGISTERED.search(line)):
                self._registered.add(registered[1])
            self._heard.notify_all()

    def _wait_for(self, address: str) -> None:
        """Wait until the master has started, or has a worker registered."""

        def there() -> bool:
            return bool(self.url) if address == _MASTER else address in self._registered

        daemon = self._daemons[address]
        what = "master" if address == _MASTER else f"worker on {address}"
        with self._heard:
            self._heard.wait_for(lambda: there() or daemon.ended, START_S_MAX)
            if there():
                return
        java = java_found()
        if not java.fine:
            raise SetupError(f"Spark's {what} did not start: {java.found}.")
        how = "ended" if daemon.ended else f"was not there after {START_S_MAX:g} s"
        raise SetupError(f"Spark's {what} {how}. It last said: {daemon.last_words() or 'nothing'}")


class _Daemon:
    """A master or a worker, and what it has said last."""

    def __init__(self, command: list[str], environment: dict[str, str], hear: Callable[[str | None], None]) -> None:
        self.ended = False
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._read, args=[hear], daemon=True)
        self._reading.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def reap(self) -> None:
        """It was killed: take note of that."""
        self._process.wait()
        self._reading.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def last_words(self) -> str:
        """The line that says why it ended, if there is one; otherwise the last."""
        lines = [line.strip() for line in self._lines]
        telling = [line for line in lines if re.search(r"error|exception", line, re.IGNORECASE)]
        return (telling or lines or [""])[-1]

    def _read(self, hear: Callable[[str | None], None]) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.append(line)
            hear(line)
        self.ended = True
        hear(None)
