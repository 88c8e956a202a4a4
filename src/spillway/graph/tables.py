"""Sinks that are tables of other systems: each batch is in them once, whoever runs it how often.

Such a table knows which batches it has, and from whom: it takes both in the one transaction that takes the rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from spillway.errors import GraphError
from spillway.graph.sinks import Sink

_SCHEMES = ("postgresql", "postgres")
_SECRET_OPTIONS = ("password", "sslpassword")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PORT = 5432


@dataclass(frozen=True, slots=True)
class TableSink(Sink):
    """A table that outlives runs, and that others may read and write, too."""

    @property
    def place(self) -> str:
        """Where it is, in words that nobody need keep secret."""
        raise NotImplementedError

    @property
    def obstacle(self) -> str:
        """Why it could not take back what came after a batch, and what to do; nothing if it can."""
        raise NotImplementedError

    def describe(self) -> str:
        return f"{type(self).__name__}({self.place})"

    def about(self) -> dict[str, str]:
        return {"kind": type(self).__name__, "table": self.place}


@dataclass(frozen=True, slots=True)
class Delta(TableSink):
    """A Delta table, appended to, at a local path or a URL such as ``s3://bucket/table``; it is made if there is none.

    Each batch is one commit, which carries the run and the batch as an application transaction: a batch that is run
    again, after a failure or by a run that resumes, is not written twice. Credentials come from the environment.

    With ``batch`` every row says in a column of that name, a text, which run it is from and which batch. A job that is
    protected as a whole (``Coordinated``) may be sent back, and needs it: rows of later batches are deleted then. The
    rows of a batch pass the driver. Wants the extra ``spillway[delta]``.
    """

    path: str
    batch: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        path: object = self.path
        if not isinstance(path, str) or not path:
            raise GraphError(f"Delta: the path of a table is wanted, as text; got {path!r}.")
        if "://" in path and "@" in path.partition("://")[2].partition("/")[0] and not path.startswith("abfs"):
            raise GraphError("Delta: the URL of the table has credentials in it. Give them by environment variables.")
        if self.batch is not None:
            _check_column("Delta: batch", self.batch)

    @property
    def place(self) -> str:
        return self.path

    @property
    def obstacle(self) -> str:
        if self.batch is not None:
            return ""
        return "its rows do not say which batch they are from. Say Delta(path, batch='batch'), a column of text"


@dataclass(frozen=True, slots=True)
class Postgres(TableSink):
    """A table of a PostgreSQL server: rows are appended, or take the place of those with the same ``key``.

    ``url`` is a ``postgresql://user:password@host:5432/database``; a password may as well come from the environment
    (``PGPASSWORD``, ``PGPASSFILE``). ``table`` may have a schema before it, ``schema.table``. It is made if there is
    none. ``key`` names one column or several; of rows of one batch with the same key the last one counts.

    Each batch is one transaction, which notes the batch in a small table of ours, ``spillway_batches``: a batch that is
    run again, after a failure or by a run that resumes, is not written twice. A job that is protected as a whole
    (``Coordinated``) may be sent back, and needs a ``key``: what rows were before is kept in ``spillway_undo`` for as
    many batches as it may go back, and put back then. The rows of a batch pass the driver. Wants the extra
    ``spillway[postgres]``.
    """

    url: str = field(repr=False)  # it may have a password in it
    table: str
    key: str | Sequence[str] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        _split(self.url)
        table: object = self.table
        if not isinstance(table, str) or not all(table.split(".")) or table.count(".") > 1 or "\0" in table:
            raise GraphError(f"Postgres: the name of a table is wanted, or schema.table; got {table!r}.")
        keys = (self.key,) if isinstance(self.key, str) else tuple(self.key)
        for name in keys:
            _check_column("Postgres: key", name)
        if len({*keys}) < len(keys):
            raise GraphError(f"Postgres: key names a column twice: {', '.join(keys)}.")
        object.__setattr__(self, "key", keys)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key; none if rows are appended."""
        return tuple(self.key)

    @property
    def place(self) -> str:
        url = _split(self.url)
        host = f"{url.hostname or 'localhost'}:{url.port or _PORT}"
        return f"{self.table} at {host}{unquote(url.path)}"

    @property
    def secrets(self) -> frozenset[str]:
        """What no message may say: the password, as it is and as it is written in the URL."""
        url = _split(self.url)
        given = [url.password or "", *(value for name, value in parse_qsl(url.query) if name in _SECRET_OPTIONS)]
        return frozenset(said for one in given for said in (one, unquote(one)) if said)

    @property
    def obstacle(self) -> str:
        return "" if self.keys else "rows without a key cannot be found again. Say Postgres(url, table, key=...)"


def _split(url: object) -> SplitResult:
    """The parts of a URL. What is wrong with it is said without repeating any of it, since it may hold a password."""
    found = urlsplit(url) if isinstance(url, str) else None
    try:
        whole = found is not None and found.scheme in _SCHEMES and (found.port or _PORT) > 0
    except ValueError:  # a port that is no number: perhaps a part of a password
        whole = False
    if found is None or not whole or found.netloc.count("@") > 1 or _BAD_ESCAPE.search(found.netloc):
        raise GraphError(
            "Postgres: a URL such as postgresql://user:password@host:5432/database is wanted; what came is none. In a "
            "password '@' is written %40, ':' %3A, '/' %2F, '#' %23, '?' %3F and '%' %25."
        )
    return found


def _check_column(what: str, name: object) -> None:
    if not isinstance(name, str) or not name or "\0" in name:
        raise GraphError(f"{what} is the name of a column; got {name!r}.")
