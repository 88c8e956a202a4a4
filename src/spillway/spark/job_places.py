"""Where the jobs of a graph keep what is theirs: a folder of checkpoints, one for each, and one of stream logs.

Every driver that runs a job of the same run finds the same places, from the folder of checkpoints alone. Stream logs
are in shared memory under a name that follows from it. The folder says of itself which run it is, so that nobody goes
on with logs that an earlier run left under the same name.
"""

import json
import os
import shutil
import tempfile
import uuid
import weakref
from contextlib import suppress
from pathlib import Path

from spillway.engine.log_files import LogPlace
from spillway.errors import RunError
from spillway.files.durable import create_whole, make_folder
from spillway.spark.offsets import numbers_in
from spillway.spark.places import local_folder, state_name
from spillway.state.folders import TEMPORARY_CHECKPOINT, claim, default_root, other_user, use

_RUN = "run.json"
_LOGS = ".logs"  # no job's name begins like that


class JobPlaces:
    """The folders of one run of a graph with jobs."""

    def __init__(self, graph: str, *, checkpoint: str | None, state: Path | None) -> None:
        self._graph = graph
        self._state = state.absolute() if state is not None else None
        self.temporary = checkpoint is None
        if checkpoint is None:
            self.root = Path(tempfile.mkdtemp(prefix=TEMPORARY_CHECKPOINT))
            claim(self.root, graph=graph)
        else:
            folder = local_folder(checkpoint)
            if folder is None:
                raise RunError(
                    f"Jobs note what they have read and written in the checkpoint: it must be a local folder, and "
                    f"{checkpoint} is none. Name another with checkpoint=."
                )
            self.root = folder
        name = state_name(f"{graph}-logs", str(self.root))
        self.logs = LogPlace(
            root=self._state / _LOGS if self._state is not None else default_root() / name, run=self._which_run()
        )
        self.logs.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        use(self.logs.root, graph=graph, checkpoint="" if self.temporary else str(self.root), pid=os.getpid())
        gone = [self.root, self.logs.root] if self.temporary else []
        self._leave = weakref.finalize(self, _remove, gone)

    def checkpoint(self, job: str) -> Path:
        """Spark's folder of a job."""
        return self.root / job

    def state(self, job: str) -> Path | None:
        """Where a job's shards are, if it was said."""
        return None if self._state is None else self._state / job

    def memory(self, job: str, graph: str) -> Path:
        """Where the shards of a job are, whose graph is called so, on this machine."""
        named = self.state(job)
        return named if named is not None else default_root() / state_name(graph, str(self.checkpoint(job).resolve()))

    def committed(self, job: str) -> int:
        """The last batch of a job that Spark has noted as done; -1 if there is none."""
        return max(numbers_in(self.checkpoint(job) / "commits"), default=-1)

    def check_free(self, job: str) -> None:
        """Refuse a job that another driver runs, before anything of it is touched."""
        user = other_user(self.checkpoint(job))
        if user is not None:
            raise RunError(
                f"Job {job!r} of graph {self._graph!r} is run by process {user.pid} already, from the same checkpoint "
                f"{self.root}. Stop that one first, or name another folder with checkpoint=."
            )

    def leave(self, states: list[Path]) -> None:
        """Remove what is temporary, these folders of shards too."""
        if self.temporary:
            _remove(states)
        self._leave()

    def _which_run(self) -> str:
        path = self.root / _RUN
        try:
            make_folder(self.root)
            with suppress(FileExistsError):  # another driver of this run, or an earlier one, was first
                create_whole(path, json.dumps({"run": uuid.uuid4().hex}).encode())
            return str(json.loads(path.read_text())["run"])
        except OSError as error:
            raise RunError(
                f"Checkpoint {self.root} cannot be written ({error.strerror or error}). Name another with checkpoint=."
            ) from error
        except (ValueError, KeyError) as error:
            raise RunError(
                f"{path} is damaged: it says which run this is. Begin anew with another checkpoint."
            ) from error


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
