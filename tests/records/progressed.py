"""Records of progress made by hand."""

import pyarrow as pa

from spillway.records.progress import PROGRESS_SCHEMA, ShardProgress


def progress(**values: object) -> ShardProgress:
    """A record in which nothing happened but what is said."""
    nothing = {
        field.name: "" if pa.types.is_string(field.type) else False if pa.types.is_boolean(field.type) else 0
        for field in PROGRESS_SCHEMA
    }
    return ShardProgress(**{**nothing, "operator": "count", **values})  # type: ignore[arg-type]
