"""Packets in files, two for every batch, of which the heavy flows have been going on for long.

A demonstration lasts a minute and a stream for months. So that heavy flows have the sizes they come to in a long
stream, the first batch also brings one record for each of them: what it sent before, anything below a limit.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.apps import APPS
from spillway.apps.flows import KEY
from spillway.apps.packets import PACKETS, addresses
from spillway.graph import Generator
from spillway.graph.feeds import Feed
from spillway.seeds import generator

SCHEMA = pa.schema([PACKETS.field(name) for name in (*KEY, "bytes")])
FILES_PER_BATCH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What was written, for anybody to read, and the truth about it."""

    folder: Path
    feed: Feed  # of the files
    flows: pa.Table  # src, dst, bytes: what every flow has sent by the end
    last_batch_seq: int  # of the first packet in the last batch


def past_of(*, seed: int, flows: int, heavy: int, bytes_max: int) -> pa.Table:
    """One record for each of the heavy flows of a generator: what it sent before, below ``bytes_max``."""
    sources, destinations = addresses(seed, flows)  # the heavy ones first
    sizes = generator(seed, "past").integers(bytes_max, size=heavy)
    return pa.table([sources[:heavy], destinations[:heavy], sizes], schema=SCHEMA)


def write_traffic(packets: Generator, past: pa.Table, folder: Path) -> Traffic:
    """Write packets into a folder, with records of the past before the first."""
    assert packets.pieces_per_batch == FILES_PER_BATCH, packets.pieces_per_batch
    pieces = [pa.Table.from_batches([packets.read(piece)]).select(SCHEMA.names) for piece in range(packets.pieces)]
    pieces[0] = pa.concat_tables([past, pieces[0]])
    folder.mkdir(parents=True)
    files = [folder / f"{number:06d}.parquet" for number in range(len(pieces))]
    for file, piece in zip(files, pieces, strict=True):
        # An address comes a few times in a file: dictionaries of them would only take time.
        pq.write_table(piece, file, use_dictionary=False, compression="lz4")
    written_s = files[0].stat().st_mtime
    for number, file in enumerate(files):
        # Spark takes files in the order in which they were last changed, and must be able to tell these apart.
        os.utime(file, times=(written_s + number, written_s + number))
    everything = pa.concat_tables(pieces)
    sums = everything.group_by(list(KEY), use_threads=False).aggregate([("bytes", "sum")])
    before_last = (len(pieces) - 1) // FILES_PER_BATCH * FILES_PER_BATCH
    return Traffic(
        folder=folder,
        # A file is a piece: none has more tuples than the first.
        feed=APPS["flows"].reader(
            folder, tuples_per_batch=FILES_PER_BATCH * pieces[0].num_rows, pieces_per_batch=FILES_PER_BATCH
        ),
        flows=sums.rename_columns(SCHEMA.names).cast(SCHEMA),
        last_batch_seq=sum(piece.num_rows for piece in pieces[:before_last]),
    )
