"""Who writes: a run, by a name that no other has and that it keeps when it is resumed.

Tables that others write to, too, know by it which batches they have of this run (see ``tables``). It is a note among
what the run resumes from: in the folder of Spark's checkpoint, on the local runtime in that of ``checkpoint`` or, if
none is given, of the backups.
"""

import uuid

from spillway.backup.reach import FOLDER
from spillway.errors import RunError
from spillway.files.envelope import seal, unseal
from spillway.files.folders import open_folder

NAME = "author.json"
FORMAT = 1


class Author:
    """A run as tables know it; noted in a folder below ``root``, a path or a URL, or nowhere if that is None."""

    def __init__(self, root: str | None = None, *parts: str) -> None:
        self._root = root
        self._parts = parts
        self._name: str | None = None

    @classmethod
    def beside(cls, checkpoint: str) -> "Author":
        """The one whose name is noted inside Spark's checkpoint folder."""
        return cls(checkpoint, FOLDER)

    @property
    def is_known(self) -> bool:
        """Whether a run that goes on where another stopped can find the name of that."""
        return self._root is not None or self._name is not None

    @property
    def name(self) -> str:
        """The name, durable before anybody is told.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     first, again = Author(place, "notes"), Author(place, "notes")
        ...     first.name == again.name, first.name == Author().name
        (True, False)
        """
        if self._name is None:
            self._name = uuid.uuid4().hex if self._root is None else _noted(self._root, *self._parts)
        return self._name


def _noted(root: str, *parts: str) -> str:
    try:
        folder = open_folder(root, *parts)
    except (ImportError, ValueError) as error:  # what fsspec says of a protocol it does not know, or has no package for
        raise RunError(
            f"In {root} it is to be noted as whom this run writes to tables, and it cannot be opened here: {error}. "
            f"Install what fsspec needs for it, or name another folder with checkpoint=."
        ) from error
    try:
        try:
            body = unseal(folder.read(NAME), format=FORMAT, what=f"The note {NAME} in {folder.place}")
        except (FileNotFoundError, NotADirectoryError):  # of the latter, writing will tell
            name = uuid.uuid4().hex
            folder.write(NAME, seal({"name": name}, format=FORMAT))
            return name
    except OSError as error:
        raise RunError(
            f"Noting in {folder.place} as whom this run writes to tables failed: {error.strerror or error}. Mend the "
            f"folder and run again."
        ) from error
    if body is None:
        raise RunError(
            f"The note {NAME} in {folder.place} is damaged: it says as whom this run writes to tables, and without it "
            f"nobody knows which batches they have. Put an intact one back, or begin anew with other folders and "
            f"tables."
        )
    return str(body["name"])
