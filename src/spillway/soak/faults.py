"""What goes wrong: faults chosen at random and done to a world."""

import errno
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np

from spillway.backup.keeper import SHARD_STEPS, Step
from spillway.engine.epochs import shard_folder
from spillway.errors import BoundLostError, StaleAttemptError
from spillway.soak.faulty_files import Damage, Trap
from spillway.soak.memories import demand
from spillway.soak.plans import GRAPH
from spillway.soak.world import Killed, World

_OPERATIONS_MAX = 25  # file operations of one batch among which the one that fails is chosen

T = TypeVar("T")


class Fault(StrEnum):
    """What can happen before or in a batch."""

    WIPE = "wipe"  # all memory is lost
    LOSE_OPERATOR = "lose-operator"  # the memory of all shards of one operator is lost
    LOSE_SHARD = "lose-shard"  # the memory of one shard is lost
    RESTART = "restart"  # a new run opens the same folders
    CRASH = "crash"  # a shard dies at a step of the batch, which is then run again
    KILL = "kill"  # the process dies at an operation on its backups; a new one goes on
    DISK_FULL = "disk-full"  # a backup cannot be written
    WRITE_FAILS = "write-fails"  # the same, with an error that is none of the operating system's
    READ_FAILS = "read-fails"  # a backup cannot be read just then
    READ_BREAKS = "read-breaks"  # the same, with an error that is none of the operating system's
    REPEAT = "repeat"  # the last batch is run again: the driver died before it noted that batch
    LEFTOVER = "leftover"  # a task of the last batch, given up by Spark, starts over and dies at a step
    STALE = "stale"  # a task of the batch before the last starts over
    DAMAGE = "damage"  # a file of the backups is damaged
    OLDER_COPY = "older-copy"  # the backups of a shard are put back as they once were


_TAMPERING = (Fault.DAMAGE, Fault.DAMAGE, Fault.OLDER_COPY)
_HARMLESS = tuple(fault for fault in Fault if fault not in _TAMPERING)
_LOSSES = (Fault.WIPE, Fault.LOSE_OPERATOR, Fault.LOSE_SHARD)  # chosen twice as often as others


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fault that was chosen, and whether it found anything to break."""

    batch: int
    fault: Fault
    where: str
    struck: bool


class StoreError(Exception):
    """What a remote file system raises that is not an OSError."""


class Faults:
    """Everything that can go wrong in a world, by chance."""

    def __init__(self, world: World, random: np.random.Generator) -> None:
        self._world = world
        self._random = random
        self._do: dict[Fault, Callable[[], tuple[str, bool]]] = {
            Fault.WIPE: self._wipe,
            Fault.LOSE_OPERATOR: self._lose_operator,
            Fault.LOSE_SHARD: self._lose_shard,
            Fault.RESTART: self._restart,
            Fault.CRASH: self._crash,
            Fault.KILL: self._kill,
            Fault.DISK_FULL: self._disk_full,
            Fault.WRITE_FAILS: self._write_fails,
            Fault.READ_FAILS: lambda: self._fails_to_read(lambda: OSError(errno.EIO, "input/output error")),
            Fault.READ_BREAKS: lambda: self._fails_to_read(lambda: StoreError("the store does not answer")),
            Fault.REPEAT: self._repeat,
            Fault.LEFTOVER: self._leave_over,
            Fault.STALE: self._come_late,
            Fault.DAMAGE: self._damage,
            Fault.OLDER_COPY: self._put_back,
        }
        self._tampers = random.random() < 0.3  # otherwise nothing may ever be reported as damaged

    def strike(self, batch: int) -> Event:
        """Choose a fault and let it happen."""
        fault = self._pick([*Fault, *_LOSSES, *_TAMPERING] if self._tampers else [*_HARMLESS, *_LOSSES])
        told = len(self._world.story)
        self._world.story.append(f"{fault} …")
        where, struck = self._do[fault]()
        self._world.story[told] = f"{fault}: {where}{'' if struck else ' (in vain)'}"
        return Event(batch=batch, fault=fault, where=where, struck=struck)

    # -- memory -----------------------------------------------------------------------------------------------

    def _wipe(self) -> tuple[str, bool]:
        world = self._world
        world.run.wipe()
        world.judge.feedback_wiped_to = world.run.batch - 1
        for memory in world.judge.memories.values():
            memory.lost = True
        return "all memory", True

    def _lose_operator(self) -> tuple[str, bool]:
        operator, _ = self._place()
        shutil.rmtree(shard_folder(self._world.memory, GRAPH, operator, 0).parent, ignore_errors=True)
        for (name, _), memory in self._world.judge.memories.items():
            memory.lost |= name == operator
        return operator, True

    def _lose_shard(self) -> tuple[str, bool]:
        operator, shard = self._place()
        self._lose(operator, shard)
        return f"{operator}, shard {shard}", True

    def _lose(self, operator: str, shard: int) -> None:
        shutil.rmtree(shard_folder(self._world.memory, GRAPH, operator, shard), ignore_errors=True)
        self._world.judge.memories[operator, shard].lost = True

    # -- processes and tasks ----------------------------------------------------------------------------------

    def _restart(self) -> tuple[str, bool]:
        self._world.restart()
        return "", True

    def _crash(self) -> tuple[str, bool]:
        """The next attempt dies at a step of a shard; if there is no such step, it goes well."""
        (operator, shard), step = self._place(), self._pick(SHARD_STEPS)
        return f"{operator}, shard {shard}, at {step}", self._dies(operator, shard, step, self._world.attempt)

    def _dies(self, operator: str, shard: int, step: Step, attempt: Callable[[], None]) -> bool:
        self._world.crash = operator, shard, step
        try:
            attempt()
        except Killed:
            return True
        finally:
            self._world.crash = None
        return False

    def _repeat(self) -> tuple[str, bool]:
        """Let the last batch be the next again, unless it is for certain committed: then Spark never does."""
        if not self._may_go_back():
            return "", False
        self._world.run.batch -= 1
        return f"batch {self._world.run.batch}", True

    def _leave_over(self) -> tuple[str, bool]:
        world = self._world
        (operator, shard), step = self._place(), self._pick(SHARD_STEPS)
        where = f"{operator}, shard {shard}, at {step}"
        if not self._may_go_back():
            return where, False
        last, stage = world.run.batch - 1, world.stage_of(operator)
        keepers = world.keepers(stage, shard)
        given = {memory.kept.name: memory.given[last] for memory in keepers}
        losses = [memory.losses for memory in keepers]

        def again() -> None:
            try:
                world.run.again(stage, shard, given, batch=last)
            except BaseException:
                world.note_cut_short()
                raise

        died = self._dies(operator, shard, step, again)
        world.committed = last
        task = world.run.task
        assert task is not None
        for memory, before in zip(keepers, losses, strict=True):
            if memory.kept.name in task.committed | task.backed_up:
                memory.given[last] = task.given[memory.kept.name]  # the feedback may have been lost meanwhile
            if memory.kept.name in task.opened - task.committed:
                memory.lost = True  # rolled back, and not applied again: as good as lost
                memory.felt_after(last, but=before)
        return where, died

    def _come_late(self) -> tuple[str, bool]:
        """A task of a batch that is long over is refused, and changes nothing."""
        world = self._world
        operator, shard = self._place()
        where, late = f"{operator}, shard {shard}", world.run.batch - 2
        stage = world.stage_of(operator)
        if late < 0 or any(memory.lost for memory in world.keepers(stage, shard)):
            return where, False
        try:
            world.run.again(stage, shard, {}, batch=late)
        except StaleAttemptError:
            return where, True
        demand(False, f"a task of batch {late} was let in at {where}, after batch {world.run.batch - 1}")
        return where, True

    def _may_go_back(self) -> bool:
        return self._world.run.batch > 0 and self._world.committed < self._world.run.batch - 1

    # -- files ------------------------------------------------------------------------------------------------

    def _kill(self) -> tuple[str, bool]:
        """The process dies before or after an operation on its backups."""
        operation, done = self._operation(), bool(self._random.integers(2))
        where = f"{'after' if done else 'before'} operation {operation}"
        self._world.files.arm(Trap(operation=operation, done=done, error=Killed))
        try:
            self._world.attempt()
        except Killed:
            self._world.files.arm(None)
            self._world.restart(killed=True)
            return where, True
        finally:
            self._world.files.arm(None)
        return where, False

    def _disk_full(self) -> tuple[str, bool]:
        return self._fails_to_write(lambda: OSError(errno.ENOSPC, "disk full"))

    def _write_fails(self) -> tuple[str, bool]:
        return self._fails_to_write(lambda: StoreError("the store does not answer"))

    def _fails_to_write(self, error: Callable[[], Exception]) -> tuple[str, bool]:
        operation, before = self._operation(), self._world.files.content
        struck = self._is_told(Trap(operation=operation, done=False, error=error))
        if struck and operation == 0:
            demand(self._world.files.content == before, "a write that was refused changed the backups")
        return f"operation {operation}", struck

    def _fails_to_read(self, error: Callable[[], Exception]) -> tuple[str, bool]:
        if self._random.random() < 0.6:
            self._wipe()
        operation = self._operation()
        return f"read {operation}", self._is_told(Trap(operation=operation, done=False, error=error, reads=True))

    def _is_told(self, trap: Trap) -> bool:
        """Whether the attempt ended with the error that says whose bound is at stake; any other breaks a promise."""
        self._world.files.arm(trap)
        try:
            self._world.attempt()
        except BoundLostError:
            return True
        finally:
            self._world.files.arm(None)
        return False

    def _damage(self) -> tuple[str, bool]:
        world = self._world
        paths = sorted(world.files.store)
        if not paths:
            return "no file", False
        path, damage, place = self._pick(paths), self._pick(tuple(Damage)), float(self._random.random())
        world.files.damage(path, damage, place=place)
        return f"{damage} {_named(path)}{self._tampered(path)}", True

    def _put_back(self) -> tuple[str, bool]:
        """The folder of one shard, of its items or of some feedback, becomes again what it was after some batch."""
        world = self._world
        folders = sorted({path.rpartition("/")[0] for path in world.files.store})
        if not folders or not world.copies:
            return "no file", False
        folder, copy = self._pick(folders), self._pick(world.copies)
        world.files.put_back(folder, copy)
        return f"{_named(folder)}{self._tampered(f'{folder}/')}", True

    def _tampered(self, path: str) -> str:
        """Note whose file was damaged, and lose its memory too now and then: otherwise damage is seldom felt."""
        _, _, operator, folder, _ = path.lstrip("/").split("/")
        if operator.startswith("."):
            self._world.judge.feedback_tampered = True
            return ""
        shard = int(folder.removeprefix("items-").partition("-")[0])
        if (operator, shard) not in self._world.judge.memories:
            return ""
        self._world.judge.memories[operator, shard].tampered = True
        if self._random.random() < 0.5:
            return ""
        self._lose(operator, shard)
        return " and the memory with it"

    # -- choices ----------------------------------------------------------------------------------------------

    def _place(self) -> tuple[str, int]:
        return self._pick(list(self._world.judge.memories))

    def _operation(self) -> int:
        # Most operations come early in a batch, so the first ones are chosen more often.
        return int(self._random.integers(int(self._random.integers(1, _OPERATIONS_MAX + 1))))

    def _pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random.integers(len(choices)))]


def _named(path: str) -> str:
    """A path without the folder of this schedule, whose name is another one every time."""
    return path.lstrip("/").partition("/")[2]
