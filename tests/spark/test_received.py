"""A graph fed by a receiver, which is killed between two runs of it; all of it with TLS, of both sides."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.certificates import Authority
from tests.kill.receiving import TOKEN, start_receiver

import spillway as sw
from spillway.receiver import ItemReader, Sender
from spillway.spark import run
from spillway.spark.receiving import received

pytestmark = [pytest.mark.spark, pytest.mark.kill]

ITEMS = 400.0


def counts_after(spark: Any, address: str, folder: Path, tls: sw.TLS) -> dict[int, int]:
    """Count the items there are, go on from the last time; returns how often each was counted, ever."""
    graph = sw.Graph("received")
    source = graph.source("items", received(spark, address, token=TOKEN, items_per_batch=1000, tls=tls))
    count = sw.operators.Count("count", key="id", protect=sw.Exact())
    graph.sink("out", graph.add(count, source), sw.Discard())
    with run(
        graph,
        spark,
        trigger={"availableNow": True},
        backups=folder / "backups",
        state=folder / "state",
        checkpoint=folder / "checkpoint",
    ) as running:
        running.wait()
        counts: dict[int, int] = {}
        for shard in range(graph.shards):
            keys, numbers = running.shard("count", shard).counts.items()  # type: ignore[attr-defined]
            counts |= dict(zip(keys.tolist(), numbers.tolist(), strict=True))
    return counts


def promised(spark: Any, address: str, tls: sw.TLS) -> sw.Graph:
    """A graph that promises more than its receiver, whose DataFrame was changed since it was made."""
    graph = sw.Graph("promised")
    frame = received(spark, address, token=TOKEN, tls=tls).where("id > 5").select("seq", "id")
    graph.sink("out", graph.source("items", frame), sw.Discard(), contract=sw.Contract(lossless=True))
    return graph


def send(sender: Sender, first: int, count: int) -> None:
    sender.send(pa.record_batch({"id": pa.array(np.arange(first, first + count))}))
    sender.flush(timeout_s=60)


def test_items_reach_the_graph_once_whatever_happens_to_the_receiver(spark: Any, tmp_path: Path) -> None:
    folder, authority = tmp_path / "receiver", Authority(tmp_path / "authority")
    tls = authority.tls(authority.signs("both"))
    process, port = start_receiver(folder, port=0, items=ITEMS, unacked=1000, tls=tls)
    address = f"127.0.0.1:{port}"
    sender = Sender(address, TOKEN, sender_id="test", tls=tls)
    send(sender, 0, 2500)
    assert counts_after(spark, address, tmp_path, tls) == dict.fromkeys(range(2500), 1)
    with pytest.raises(
        sw.SpillwayError, match=r"(?m)^  items +source .* may lose up to 400 items that it acknowledged"
    ):
        run(promised(spark, address, tls), spark)

    send(sender, 2500, 150)  # below the threshold: nothing makes these durable
    process.kill()
    process.join()
    process, _ = start_receiver(folder, port=port, items=ITEMS, unacked=1000, tls=tls)
    send(sender, 2650, 1350)
    counts = counts_after(spark, address, tmp_path, tls)
    with ItemReader(address, TOKEN, tls=tls) as reader:
        status = reader.status()
    sender.close()
    process.kill()
    process.join()
    assert set(counts.values()) == {1}, "an item was counted twice"
    lost = set(range(4000)) - set(counts)
    assert lost == set(range(2500, 2650)), "what Spark had not read and was not durable, and nothing else"
    assert len(lost) <= ITEMS / 2
    assert (status["failures"], status["lost"]) == (1, len(lost))
