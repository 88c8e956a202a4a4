"""Packets between hosts: made from a seed, or read from packet tables.

A generated packet belongs with probability ``heavy_share`` to one of ``heavy`` flows, all alike, and otherwise to one
of the rest, whose activity has a heavy tail. Sizes follow a fixed mix, half of them short and a third full, with a mean
of 627 bytes. Over n packets a heavy flow then has about 627 · n · heavy_share / heavy bytes.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import Option
from spillway.apps.making import Pieces, heavy_tailed
from spillway.apps.reading import Files
from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ_FIELD, Feed, Generator, Trace
from spillway.seeds import generator

PACKET_BYTES_MAX = 1500
"""α of the error bounds: the most that one packet can add to a counter."""

PACKETS = pa.schema(
    [
        SEQ_FIELD,
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)

OPTIONS = (
    Option(name="flows", default=100_000, meaning="how many flows there are, heavy ones included", least=1, most=10**8),
    Option(name="heavy", default=20, meaning="how many of them are heavy", least=0, most=10**8),
    Option(
        name="heavy_share", default=0.5, meaning="the part of all packets that the heavy ones have", least=0, most=1
    ),
    Option(name="exponent", default=0.7, meaning="how steeply the others' activity falls with rank", least=0, most=10),
)

# One byte of randomness picks a size, so the mix is counted in 256ths.
_SIZES = np.repeat(np.array([40, 52, 120, 576, 1420, PACKET_BYTES_MAX], np.int64), [77, 51, 13, 20, 10, 85])


@dataclass(frozen=True, slots=True, kw_only=True)
class Packets:
    """One piece of generated packets: a function of its number."""

    seed: int
    cut: Pieces
    flows: int
    heavy: int
    heavy_share: float
    exponent: float

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        random = generator(self.seed, "packets", piece)
        # The heavy flows come first in the table of addresses, the others follow by rank.
        flows = self.heavy + heavy_tailed(random, len(seqs), ranks=self.flows - self.heavy, exponent=self.exponent)
        if self.heavy:
            is_heavy = random.random(len(seqs)) < self.heavy_share
            flows[is_heavy] = random.integers(self.heavy, size=int(is_heavy.sum()))
        sizes = _SIZES[random.integers(len(_SIZES), size=len(seqs), dtype=np.uint8)]
        sources, destinations = addresses(self.seed, self.flows)
        columns = [seqs, sources.take(pa.array(flows)), destinations.take(pa.array(flows)), pa.array(sizes)]
        return pa.RecordBatch.from_arrays(columns, schema=PACKETS)


def generate_packets(
    *,
    seed: int,
    tuples: int,
    tuples_per_batch: int,
    pieces_per_batch: int,
    flows: int,
    heavy: int,
    heavy_share: float,
    exponent: float,
) -> Generator:
    """Packets of a few heavy flows among many light ones."""
    if heavy >= flows:
        raise GraphError(f"Packets: of {flows} flows at most {flows - 1} can be heavy; got {heavy}.")
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    packets = Packets(seed=seed, cut=cut, flows=flows, heavy=heavy, heavy_share=heavy_share, exponent=exponent)
    return Generator(make=packets, schema=PACKETS, pieces=cut.count, pieces_per_batch=pieces_per_batch)


@lru_cache(maxsize=2)
def addresses(seed: int, flows: int) -> tuple[pa.Array, pa.Array]:
    """Source and destination of every flow, no two flows alike: half of a 32-bit number each.

    >>> sources, destinations = addresses(7, 1_000)
    >>> len(set(zip(sources.to_pylist(), destinations.to_pylist())))
    1000
    """
    # An odd factor makes this a permutation of the 32-bit numbers.
    factor, shift = generator(seed, "addresses").integers(2**31, size=2)
    numbers = (np.arange(flows, dtype=np.uint64) * np.uint64(2 * factor + 1) + np.uint64(shift)) % np.uint64(2**32)
    return _addresses("10.0", numbers >> np.uint64(16)), _addresses("10.1", numbers & np.uint64(0xFFFF))


def _addresses(network: str, hosts: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> pa.Array:
    parts = [pa.array(hosts >> np.uint64(8)).cast(pa.string()), pa.array(hosts & np.uint64(255)).cast(pa.string())]
    return pc.binary_join_element_wise(network, *parts, ".")


def read_packets(path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int) -> Feed:
    """Packet tables in Parquet or Arrow: columns ``src`` and ``dst``, text or integers, and ``bytes`` or ``length``."""
    trace = Trace(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    schema = trace.schema
    size = "bytes" if "bytes" in schema.names else "length"
    for name in ("src", "dst", size):
        if name not in schema.names:
            wanted = "'bytes' or 'length'" if name == size else repr(name)
            raise InputError(f"{path}: a column {wanted} is wanted; there are {', '.join(schema.names)}.")
    fields = [SEQ_FIELD]
    for name in ("src", "dst"):
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
            raise InputError(f"{path}: column {name!r} must be text or an integer; it is {kind}.")
        fields.append(pa.field(name, pa.int64() if pa.types.is_integer(kind) else kind, nullable=False))
    if not pa.types.is_integer(schema.field(size).type):
        raise InputError(f"{path}: column {size!r} must be an integer; it is {schema.field(size).type}.")
    names = (("src", "src"), ("dst", "dst"), ("bytes", size))
    trace = replace(trace, columns=["src", "dst", size])
    return Files(trace=trace, schema=pa.schema([*fields, PACKETS.field("bytes")]), names=names)
