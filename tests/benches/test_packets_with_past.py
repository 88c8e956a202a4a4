"""Packets in files: what is read from them is what was generated, behind the past, and the truth is true."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.apps import APPS
from spillway.apps.flows import exact_bytes
from spillway.benches.packets_with_past import past_of, write_traffic


def test_files_hold_the_past_and_then_the_packets(tmp_path: Path) -> None:
    packets = APPS["flows"].generator(seed=5, tuples=605, tuples_per_batch=200, flows=50, heavy=4)
    past = past_of(seed=5, flows=50, heavy=4, bytes_max=10_000)
    traffic = write_traffic(packets, past, tmp_path / "in")

    made = [packets.read(piece) for piece in range(packets.pieces)]
    expected = pa.concat_tables([past, *(pa.table(batch).select(past.column_names) for batch in made)])
    read = pa.concat_tables(pa.table(traffic.feed.read(piece)) for piece in range(traffic.feed.pieces))
    assert read.select(past.column_names) == expected
    assert read["seq"].to_pylist() == [*range(609)]
    # Two pieces are a batch, the past belongs to the first of them, and of the last batch there are five packets.
    assert (traffic.feed.pieces, traffic.feed.pieces_per_batch) == (7, 2)
    assert traffic.feed.read(0).num_rows == 104
    assert traffic.last_batch_seq == 604
    by_flow = [("src", "ascending"), ("dst", "ascending")]
    assert traffic.flows.sort_by(by_flow) == exact_bytes(traffic.feed).sort_by(by_flow).cast(traffic.flows.schema)


def test_files_can_be_told_apart_by_when_they_were_changed(tmp_path: Path) -> None:
    packets = APPS["flows"].generator(seed=5, tuples=80, tuples_per_batch=20, flows=50, heavy=4)
    folder = write_traffic(packets, past_of(seed=5, flows=50, heavy=4, bytes_max=10), tmp_path / "in").folder
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
    assert [file.name for file in files] == [f"{number:06d}.parquet" for number in range(8)]
    assert len({file.stat().st_mtime for file in files}) == 8


def test_the_past_is_that_of_the_heavy_flows(tmp_path: Path) -> None:
    past = past_of(seed=5, flows=50, heavy=4, bytes_max=10)
    packets = APPS["flows"].generator(seed=5, tuples=400, tuples_per_batch=400, flows=50, heavy=4, heavy_share=1.0)
    traffic = write_traffic(packets, past, tmp_path / "in")
    assert past.num_rows == 4 and max(past["bytes"].to_pylist()) < 10
    assert traffic.flows.num_rows == 4  # all packets are of the same four
    assert pq.read_table(traffic.folder).num_rows == 404
