"""How damage is told from content."""

import pyarrow as pa
import xxhash


def checksum(data: bytes | pa.Buffer) -> str:
    """64 bits that change with any of the data."""
    return xxhash.xxh3_64_hexdigest(data)
