"""``spillway send``: send a file, or what comes in, to a receiver."""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from spillway.cli.output import PEOPLE, PROGRESS, print_json
from spillway.cli.tls_options import add_tls_options, given_tls
from spillway.errors import InputError
from spillway.receiver import ItemReader, ItemSchema, Sender, find_token
from spillway.receiver.options import TOKEN_VARIABLE
from spillway.receiver.wire.schema import PUNCTUATION

_TELL_EVERY_S = 2.0
_ROWS = 50_000
_LINES_BYTES = 1 << 16


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="JSON lines, .parquet or .arrow; - for JSON lines on standard input"
    )
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="where the receiver listens")
    parser.add_argument("--token-file", type=Path, help=f"holds the shared secret (default: {TOKEN_VARIABLE})")
    parser.add_argument("--as", dest="sender", default="", help="the sender's name (default: a new one)")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds the receiver may be away (default: 60)")
    add_tls_options(parser, believed="who is believed that the receiver is who it should be (default: no TLS)")


def main(options: argparse.Namespace) -> int:
    token, tls = find_token(options.token_file), given_tls(options)
    with ItemReader(options.to, token, patience_s=options.patience, tls=tls) as reader:
        _, schema = reader.greeting()
    started_s = told_s = time.monotonic()
    given = 0
    with Sender(options.to, token, sender_id=options.sender, patience_s=options.patience, tls=tls) as sender:
        for items in _read(options.file, schema):
            if isinstance(items, list):
                sender.send_lines(items)
                given += len(items)
            else:
                sender.send(items)
                given += items.num_rows
            if time.monotonic() - told_s > _TELL_EVERY_S:
                told_s = time.monotonic()
                PROGRESS.print(f"{sender.counts.acknowledged:,} items acknowledged, {sender.counts.refused:,} refused.")
        sender.flush()
        counts = sender.counts
    elapsed_s = time.monotonic() - started_s
    if options.json:
        print_json(
            {
                "sender": sender.sender_id,
                "given": given,
                "taken": counts.acknowledged - counts.refused,
                "refused": counts.refused,
                "reasons": list(counts.reasons),
                "connections": counts.connections,
                "seconds": elapsed_s,
            }
        )
        return 0
    for number, reason in counts.reasons:
        PEOPLE.print(f"refused: item {number}: {reason}", markup=False, soft_wrap=True)
    PEOPLE.print(
        f"{counts.acknowledged - counts.refused:,} of {given:,} items taken in {elapsed_s:.1f} s, "
        f"{counts.refused:,} refused."
    )
    return 0


def _read(file: str, schema: ItemSchema) -> Iterator[Any]:
    """The items of a file: lines, or batches."""
    if file == "-":
        yield from _lines(sys.stdin.buffer)
        return
    try:
        if file.endswith(".parquet"):
            with pq.ParquetFile(file) as opened:
                yield from (_fitting(batch, schema, file) for batch in opened.iter_batches(_ROWS))
        elif file.endswith((".arrow", ".feather")):
            with ipc.open_file(file) as opened:
                for i in range(opened.num_record_batches):
                    yield _fitting(opened.get_batch(i), schema, file)
        else:
            with Path(file).open("rb") as lines:
                yield from _lines(lines)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read: {error}") from None


def _lines(file: Any) -> Iterator[list[bytes]]:
    """Lines go as they are: the receiver says what is wrong with which. Those that are there already go together."""
    rest = b""
    while data := file.read1(_LINES_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield [line for line in map(bytes.strip, lines) if line]
    if rest.strip():
        yield [rest.strip()]


def _fitting(batch: pa.RecordBatch, schema: ItemSchema, file: str) -> pa.RecordBatch:
    """The columns that the receiver wants, in its order and types."""
    wanted = [PUNCTUATION, *schema.columns.names] if PUNCTUATION in batch.schema.names else schema.columns.names
    missing = [name for name in wanted if name not in batch.schema.names]
    if missing:
        raise InputError(f"{file} has no column {missing[0]!r}; the receiver wants {schema.described()}.")
    kinds = pa.schema([schema.given.field(name).with_nullable(True) for name in wanted])
    return batch.select(wanted).cast(kinds)
