"""Servers that hand memory over, and shards for them, in tests."""

from pathlib import Path
from typing import Any

import numpy as np
import psutil
from tests.state.shards import Opened, open_shard

from spillway.engine.hand_over_server import start_server
from spillway.engine.handing_over import Address
from spillway.errors import StateError
from spillway.state import HashTable
from spillway.state.locks import holding, lock_of

TOKEN = "of-this-test"
HOST = "127.0.0.2"
STATE = {"counts": HashTable()}


class Servers:
    """Servers of one test, each with its process."""

    def __init__(self) -> None:
        self.processes: list[psutil.Process] = []

    def start(self, root: Path, **options: Any) -> tuple[Address, psutil.Process]:
        before = psutil.Process().children()
        address = start_server(root, **{"host": HOST, "token": TOKEN, **options})
        (process,) = set(psutil.Process().children()) - set(before)
        self.processes.append(process)
        return address, process

    def end(self) -> None:
        for process in self.processes:
            if process.is_running():
                process.kill()


def make_shard(folder: Path) -> Opened:
    opened = open_shard(folder, **STATE)
    with opened.batch(backup=True):
        opened["counts"].add(np.arange(100), 1)
    return opened


def name_of(opened: Opened) -> str:
    folder = opened.shard.folder
    return f"g/{folder.parent.name}/{folder.name}"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def left_at(to: Path) -> list[str]:
    """All that there is beside a target but its lock."""
    return sorted(path.name for path in to.parent.iterdir() if path != lock_of(to))


def make_large(opened: Opened) -> None:
    """More than fits between the two ends of a connection."""
    (opened.shard.folder / "large").write_bytes(np.random.default_rng(1).bytes(64 << 20))


def is_free(lock: Path) -> bool:
    try:
        with holding(lock, seconds_max=0):
            return True
    except StateError:
        return False
