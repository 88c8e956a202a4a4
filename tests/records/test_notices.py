"""What is worth waking up for: one line each, at its level, under its logger."""

import json
import logging
from typing import get_args, get_type_hints

import pytest
from tests.records.placed import moved, waited
from tests.records.progressed import progress

from spillway.records.events import Event
from spillway.records.events import Kind as Happening
from spillway.records.json_lines import JsonFormatter
from spillway.records.notices import LINES, Kind, Notice, log_notice, notice_of, notices_of_batch
from spillway.records.rewound import Rewound


def event(kind: Happening) -> Event:
    return Event(time_s=9.0, kind=kind, job="match", replica="match-1", told=f"It {kind}.")


@pytest.mark.parametrize(
    ("one", "kind", "level"),
    [
        (moved(handed_over=True), Kind.HANDED_OVER, logging.INFO),
        (moved(handed_over=False), Kind.MOVED, logging.WARNING),
        (waited(), Kind.HOST_WAITED_FOR, logging.INFO),
        (Rewound(committed=9, to=4, why="so", seconds=0.1, time_s=1.0), Kind.SENT_BACK, logging.WARNING),
        *((event(kind), Kind.JOB, logging.WARNING) for kind in Happening if kind is not Happening.ACTIVE),
        (event(Happening.ACTIVE), Kind.JOB_ACTIVE, logging.INFO),
    ],
)
def test_what_other_records_say_is_a_line_at_its_level(
    one: object, kind: Kind, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    notice = notice_of(one)  # type: ignore[arg-type]
    assert notice.kind is kind
    with caplog.at_level(logging.INFO, logger="spillway"):
        log_notice(notice, graph="words")
    (line,) = caplog.records
    assert (line.levelno, line.name) == (level, LINES[kind].logger)
    assert line.getMessage() == f"words: {notice.told}"


def test_every_kind_and_every_record_has_a_line() -> None:
    assert {*LINES} == {*Kind}
    assert all(place.logger.startswith("spillway.") for place in LINES.values())
    assert len(get_args(get_type_hints(notice_of)["one"])) == 4


def test_a_batch_has_one_line_for_each_operator_however_many_shards() -> None:
    lost = {"recovered": True, "loss_max": 2.5e6, "metrics": "l1"}
    rows = [
        *(progress(batch=7, shard=shard, recovered_from=3 + shard, **lost) for shard in range(64)),
        progress(operator="other", batch=7, shard=2, recovered=True, recovered_from=-1, loss_max=float("inf")),
        progress(operator="third", batch=7, damage="a part is torn"),
        progress(operator="calm", batch=7),
    ]
    found = notices_of_batch(rows, time_s=9.0)
    assert [(one.kind, one.operator) for one in found] == [
        (Kind.RECOVERED, "count"),
        (Kind.RECOVERED, "other"),
        (Kind.BACKUPS_DAMAGED, "third"),
    ]
    assert "recovered shards 0 to 63 in batch 7, from the backup of batch 3 or later" in found[0].told
    assert "each is off by at most 2,500,000 in l1" in found[0].told
    assert "recovered shard 2 in batch 7, from nothing: nothing bounds what was lost" in found[1].told
    assert "a part is torn" in found[2].told


def test_a_line_as_json_says_what_it_is_of(caplog: pytest.LogCaptureFixture) -> None:
    notice = Notice(time_s=9.0, kind=Kind.MEMORY_LOST, told="Gone.", batch=4, operator="count")
    log_notice(notice, graph="words")
    line = json.loads(JsonFormatter().format(caplog.records[0]))
    del line["time"]
    assert line == {
        "level": "WARNING",
        "logger": "spillway.memory",
        "message": "words: Gone.",
        "kind": "memory lost",
        "graph": "words",
        "batch": 4,
        "operator": "count",
    }


def test_by_default_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    import spillway

    logger = logging.getLogger(spillway.__name__)
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    assert logger.level == logging.NOTSET and logger.propagate
