"""What an item looks like: the columns that senders give, and the two the receiver adds.

A stored item is (``seq``, ``punctuation``, columns…). Senders never give ``seq``; ``punctuation`` may be left out and
is then false. A column is required unless its type ends in ``?``.

>>> schema = ItemSchema.parse("src:int64, note:string?")
>>> schema.stored.names
['seq', 'punctuation', 'src', 'note']
>>> schema.described()
'src:int64,note:string?'
"""

from dataclasses import dataclass

import pyarrow as pa

from spillway.errors import InputError
from spillway.graph.feeds import SEQ, SEQ_FIELD

PUNCTUATION = "punctuation"
PUNCTUATION_FIELD = pa.field(PUNCTUATION, pa.bool_(), nullable=False)

# The types Spark has too, under Arrow's names.
TYPES = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_NAME_OF = {kind: name for name, kind in TYPES.items()}
_COLUMNS_MAX = 200
_NAME_BYTES_MAX = 100


@dataclass(frozen=True, slots=True)
class ItemSchema:
    """The columns of an item, as the sender gives them."""

    columns: pa.Schema

    def __post_init__(self) -> None:
        names = self.columns.names
        if not 0 < len(names) <= _COLUMNS_MAX or len(set(names)) < len(names):
            raise InputError(f"An item has 1 to {_COLUMNS_MAX} columns of different names; got {', '.join(names)}.")
        for column in self.columns:
            if column.name in (SEQ, PUNCTUATION):
                raise InputError(f"Items get a column {column.name!r} from the receiver; name yours otherwise.")
            if not column.name or set(column.name) & set(":,") or len(column.name.encode()) > _NAME_BYTES_MAX:
                raise InputError(f"A column name has 1 to {_NAME_BYTES_MAX} bytes, no ':' or ','; got {column.name!r}.")
            if column.type not in _NAME_OF:
                raise InputError(f"Column {column.name!r} is {column.type}; wanted one of {', '.join(TYPES)}.")

    @classmethod
    def parse(cls, text: str) -> "ItemSchema":
        """The schema written as ``name:type,name:type?,…``."""
        fields = []
        for part in text.split(","):
            name, colon, kind = part.strip().rpartition(":")
            required = not kind.endswith("?")
            arrow = TYPES.get(kind.strip().removesuffix("?"))
            if not colon or arrow is None:
                raise InputError(
                    f"A column is written NAME:TYPE with a type of {', '.join(TYPES)}; got {part.strip()!r}."
                )
            fields.append(pa.field(name.strip(), arrow, nullable=not required))
        return cls(pa.schema(fields))

    def described(self) -> str:
        """The schema as ``parse`` reads it."""
        return ",".join(f"{c.name}:{_NAME_OF[c.type]}{'?' if c.nullable else ''}" for c in self.columns)

    @property
    def given(self) -> pa.Schema:
        """What a sender may give: the columns, with ``punctuation`` in front."""
        return pa.schema([PUNCTUATION_FIELD, *self.columns])

    @property
    def stored(self) -> pa.Schema:
        """What the receiver keeps and hands out."""
        return pa.schema([SEQ_FIELD, PUNCTUATION_FIELD, *self.columns])

    @property
    def handed_out(self) -> pa.Schema:
        """The stored schema for Spark, whose columns may all be null and which compares schemas to the letter."""
        return pa.schema([column.with_nullable(True) for column in self.stored])
