"""When a job keeps, saves and acknowledges checkpoints, protocol by protocol, as lists of what is to be done."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from spillway.errors import GraphError
from spillway.protocols import (
    COORDINATED,
    EXTENDED,
    UNCOORDINATED,
    Acknowledge,
    Acknowledged,
    Action,
    Asked,
    AskExtension,
    Checkpoint,
    CheckpointMachine,
    CheckpointProtocol,
    Committed,
    Event,
    ExtensionAsked,
    Forget,
    Keep,
    RefusedError,
    Request,
    Restarted,
    Save,
    Saved,
    Send,
    Trim,
    check_jobs,
    protocol_named,
)
from spillway.protocols.checkpoint_rules import Watched
from spillway.protocols.checkpoint_states import TRANSITIONS, State, table

ROOT = Path(__file__).parents[2]


class Driven:
    """A machine under a short name for each event; what it says is put into words."""

    def __init__(self, protocol: CheckpointProtocol, *, inputs: str = "in", outputs: str = "out", pending_max: int = 3):
        logs = dict.fromkeys(inputs.split(), 1000)
        self.machine = CheckpointMachine(
            "job", protocol=protocol, inputs=logs, outputs=outputs.split(), pending_max=pending_max
        )
        self.watched = Watched(self.machine)

    def tell(self, event: Event) -> list[str]:
        return [said(action) for action in self.watched.handle(event)]

    def batch(
        self,
        batch: int,
        read: int | Mapping[str, int],
        written: int | Mapping[str, int],
        *requests: Request,
        due: bool = False,
        state_bytes: int = 0,
    ) -> list[str]:
        reads = dict.fromkeys(self.machine.inputs, read) if isinstance(read, int) else read
        writes = dict.fromkeys(self.machine.outputs, written) if isinstance(written, int) else written
        event = Committed(
            batch=batch,
            read=reads,
            written=writes,
            due=due,
            requests=requests,
            state_bytes=state_bytes,
            tuple_bytes=dict.fromkeys(reads, 10),
        )
        return self.tell(event)

    def acknowledged(self, position: int, stream: str = "out", **load: int) -> list[str]:
        return self.tell(Acknowledged(stream=stream, position=position, load=load))


def said(action: Action) -> str:
    match action:
        case Keep(checkpoint=checkpoint):
            return f"keep {checkpoint.batch}"
        case Save(checkpoint=checkpoint, log=log):
            return " ".join([f"save {checkpoint.batch}", *(f"{part.stream}[{part.start}:{part.end}]" for part in log)])
        case Forget(batch=batch):
            return f"forget {batch}"
        case Send(request=request):
            waiting = " ".join(f"{job}{batch}" for job, batch in sorted(request.waiting.items()))
            return f"request {request.stream} {request.position} for {request.checkpoint} ({waiting})"
        case Acknowledge(stream=stream, position=position):
            return f"acknowledge {stream} {position}"
        case AskExtension(stream=stream, position=position, checkpoint=batch):
            return f"extend {batch} by {stream} from {position}"
        case Trim(stream=stream, position=position):
            return f"trim {stream} {position}"


def asks(position: int, stream: str = "in", checkpoint: int = 0, *, plain: bool = False, **waiting: int) -> Request:
    return Request(stream=stream, position=position, checkpoint=checkpoint, waiting=waiting, extensible=not plain)


def at(batch: int, read: int, written: int, log_start: int | None = None) -> Checkpoint:
    start = written if log_start is None else log_start
    return Checkpoint(batch=batch, read={"in": read}, written={"out": written}, log_start={"out": start})


# -- the three protocols ----------------------------------------------------------------------------------------------


def test_uncoordinated_saves_at_once_with_the_log_and_acknowledges_after() -> None:
    job = Driven(UNCOORDINATED)
    assert job.batch(0, 10, 5) == []
    assert job.batch(1, 20, 9, due=True) == ["keep 1", "save 1 out[0:9]"]
    assert job.acknowledged(4) == ["trim out 4"]
    assert job.batch(2, 30, 12, due=True) == ["keep 2"]  # one write at a time
    assert job.tell(Saved(batch=1)) == ["forget 1", "acknowledge in 20", "save 2 out[4:12]"]
    assert job.tell(Saved(batch=2)) == ["forget 2", "acknowledge in 30"]
    assert job.machine.permanent == at(2, 30, 12, 4)
    # It sends no requests and obeys those of others; what is permanent is acknowledged again.
    assert job.batch(3, 40, 12, asks(30, plain=True)) == ["acknowledge in 30"]
    assert job.batch(4, 50, 12, asks(45, plain=True)) == ["keep 4", "save 4 out[4:12]"]


def test_coordinated_waits_for_every_reader_and_has_no_log() -> None:
    job = Driven(COORDINATED, outputs="left right")
    assert job.batch(0, 10, {"left": 5, "right": 7}, due=True) == [
        "keep 0",
        "request left 5 for 0 ()",
        "request right 7 for 0 ()",
    ]
    assert job.acknowledged(6, "left") == ["trim left 6"]
    assert job.acknowledged(6, "right") == ["trim right 6"]
    assert job.acknowledged(3, "right") == []  # late
    assert job.batch(1, 20, {"left": 6, "right": 9}, due=True) == ["keep 1", "request right 9 for 1 ()"]
    assert job.acknowledged(7, "right") == ["trim right 7", "save 0"]
    assert job.acknowledged(9, "right") == ["trim right 9"]
    assert job.tell(Saved(batch=0)) == ["forget 0", "acknowledge in 10", "save 1"]
    assert job.tell(Saved(batch=1)) == ["forget 1", "acknowledge in 20"]


def test_only_the_newest_of_those_that_may_be_is_saved() -> None:
    job = Driven(COORDINATED)
    for batch in range(3):
        job.batch(batch, 10 * batch, batch + 1, due=True)
    assert job.acknowledged(2) == ["trim out 2", "forget 0", "save 1"]
    assert job.tell(Saved(batch=1)) == ["forget 1", "acknowledge in 10"]


def test_the_newest_gives_way_when_too_many_are_pending() -> None:
    job = Driven(COORDINATED, pending_max=2)
    job.batch(0, 0, 1, due=True)
    job.batch(1, 1, 2, due=True)
    assert job.batch(2, 2, 3, due=True) == ["forget 1", "keep 2", "request out 3 for 2 ()"]
    assert job.acknowledged(1) == ["trim out 1", "save 0"]  # the oldest got there


def test_the_last_job_saves_at_once_and_a_job_that_is_up_to_date_requests_nothing() -> None:
    last = Driven(COORDINATED, outputs="")
    assert last.batch(0, 10, {}, asks(8, plain=True)) == ["keep 0", "save 0"]
    assert Driven(COORDINATED).batch(0, 10, 0, due=True) == ["keep 0", "save 0"]


def test_requests_are_obeyed_once() -> None:
    job = Driven(COORDINATED)
    assert job.batch(0, 10, 5, asks(8, plain=True), asks(9, plain=True)) == ["keep 0", "request out 5 for 0 ()"]
    assert job.batch(1, 20, 6, asks(10, plain=True)) == []  # the pending one covers it
    assert job.tell(Asked(requests=(asks(20, plain=True),))) == ["keep 1", "request out 6 for 1 ()"]
    assert job.tell(Asked(requests=(asks(30, plain=True),), held_up=True)) == []  # it is met again


def test_a_reader_saves_before_it_holds_back_half_of_a_log() -> None:
    job = Driven(COORDINATED, outputs="")
    assert job.batch(0, 499, {}) == []
    assert job.batch(1, 500, {}) == ["keep 1", "save 1"]
    assert job.batch(2, 999, {}) == []


# -- extensions -------------------------------------------------------------------------------------------------------


def test_a_small_part_of_the_log_is_asked_for_in_place_of_a_checkpoint() -> None:
    join = Driven(EXTENDED, inputs="left right", outputs="out")
    assert join.batch(0, 10, 5, asks(9, "left", left=7), state_bytes=60) == [
        "keep 0",
        "request out 5 for 0 (job0 left7)",
    ]
    # 3 tuples of 10 bytes are less than 60 and what comes downstream; those that wait are told on.
    assert join.batch(1, 14, 6, asks(13, "right", 4, right=4), state_bytes=60) == [
        "extend 4 by right from 10",
        "request out 5 for 0 (job0 left7 right4)",
    ]
    # 9 tuples are more, until it is known what a checkpoint costs downstream.
    assert join.batch(2, 20, 7, asks(19, "right", 5), state_bytes=60) == ["keep 2", "request out 7 for 2 (job2)"]
    join.acknowledged(0, next=100, job=999)
    assert join.batch(3, 30, 8, asks(29, "right", 6), state_bytes=60) == ["extend 6 by right from 20"]
    # A due checkpoint covers it.
    assert join.batch(4, 31, 8, asks(31, "right", 7, right=7), due=True, state_bytes=60) == [
        "keep 4",
        "request out 8 for 4 (job4 right7)",
    ]
    # Whoever cannot be asked for it is obeyed.
    assert join.batch(5, 32, 8, asks(32, "right", 8, plain=True), state_bytes=60)[:2] == ["forget 4", "keep 5"]


def test_an_extended_checkpoint_waits_for_less_and_has_that_log() -> None:
    job = Driven(EXTENDED)
    job.batch(0, 10, 5, due=True)
    job.acknowledged(2)
    assert job.tell(ExtensionAsked(stream="out", position=3, checkpoint=0)) == []
    assert job.tell(ExtensionAsked(stream="out", position=0, checkpoint=7)) == []  # which is not there any more
    assert job.acknowledged(3) == ["trim out 3", "save 0 out[3:5]"]
    assert job.tell(ExtensionAsked(stream="out", position=0, checkpoint=0)) == []  # too late


def test_a_checkpoint_that_waits_for_itself_is_recognised_by_its_identifier() -> None:
    job = Driven(EXTENDED)
    job.batch(0, 10, 5, due=True)
    job.acknowledged(5)
    job.tell(Saved(batch=0))
    assert job.batch(1, 20, 9, due=True) == ["keep 1", "request out 9 for 1 (job1)"]
    # Around the cycle, covered or not: the log since what is permanent, since the pending one waits itself.
    assert job.batch(2, 30, 9, asks(15, checkpoint=3, job=1, other=3)) == ["extend 3 by in from 10"]
    assert job.batch(3, 30, 9, asks(25, checkpoint=4, job=1, other=4)) == ["extend 4 by in from 10"]
    # One that has become permanent waits no longer; and a request that came twice, by two ways, is no cycle.
    assert job.batch(4, 30, 9, asks(20, checkpoint=5, job=0, other=5)) == ["request out 9 for 1 (job1 other5)"]
    assert job.batch(5, 30, 9, asks(20, checkpoint=5, job=0, other=5)) == []


def test_whoever_is_held_up_asks_for_the_log_of_what_it_cannot_reach() -> None:
    for protocol in (EXTENDED, UNCOORDINATED):
        job = Driven(protocol)
        job.batch(0, 10, 5)
        assert job.tell(Asked(requests=(asks(12, checkpoint=3, other=3),), held_up=True)) == ["extend 3 by in from 0"]


# -- restarting -------------------------------------------------------------------------------------------------------


def test_after_its_memory_is_lost_a_job_knows_what_its_checkpoint_says() -> None:
    job = Driven(UNCOORDINATED)
    assert job.tell(Restarted(permanent=at(7, 70, 35, 30))) == ["acknowledge in 70"]
    assert job.batch(8, 75, 36, due=True) == ["keep 8", "save 8 out[30:36]"]
    assert job.acknowledged(40) == ["trim out 40"]  # it had written more before
    job.tell(Saved(batch=8))
    assert job.batch(9, 80, 38, due=True) == ["keep 9", "save 9"]


def test_a_job_that_only_lost_its_driver_goes_on_and_says_again_what_may_have_been_cut_off() -> None:
    job = Driven(COORDINATED)
    restarted = Restarted(
        permanent=at(4, 40, 20), now=at(8, 80, 40, 25), kept=(at(7, 70, 35), at(3, 30, 15), at(5, 50, 25))
    )
    assert job.tell(restarted) == [
        "acknowledge in 40",
        "forget 3",
        "request out 35 for 7 ()",
        "save 5",
    ]
    assert job.acknowledged(35) == ["trim out 35"]
    assert job.tell(Saved(batch=5)) == ["forget 5", "acknowledge in 50", "save 7"]


def test_a_reader_whose_driver_died_before_it_kept_what_holds_back_a_log_does_so_when_it_restarts() -> None:
    job = Driven(UNCOORDINATED)
    assert job.tell(Restarted(permanent=at(1, 100, 0), now=at(3, 599, 0))) == ["acknowledge in 100"]
    job = Driven(UNCOORDINATED)
    assert job.tell(Restarted(permanent=at(1, 100, 0), now=at(3, 600, 0))) == ["acknowledge in 100", "keep 3", "save 3"]


def test_what_restarts_with_other_streams_is_refused_and_more_copies_than_may_be_are_forgotten() -> None:
    job = Driven(COORDINATED, outputs="other", pending_max=2)
    with pytest.raises(RefusedError, match="its positions are of other streams"):
        job.tell(Restarted(permanent=at(4, 40, 20)))
    job = Driven(COORDINATED, pending_max=2)
    kept = tuple(at(batch, 10 * batch, 5 * batch) for batch in (5, 6, 7))
    assert job.tell(Restarted(permanent=at(4, 40, 20), now=at(8, 80, 40, 20), kept=kept))[-1] == "forget 7"


# -- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Committed(batch=3, read={"in": 40}, written={"out": 20}), "batch 3 is committed already"),
        (Committed(batch=4, read={}, written={"out": 20}), "its positions are of other streams"),
        (Committed(batch=4, read={"in": 29}, written={"out": 20}), "it has read more before"),
        (Committed(batch=4, read={"in": 40}, written={"out": 14}), "it has written more before"),
        (Committed(batch=4, read={"in": 40}, written={"out": 20}, requests=(asks(41),)), "is not in what was read"),
        (Committed(batch=4, read={"in": 40}, written={"out": 20}, requests=(asks(1, "x"),)), "is not in what was read"),
        (Asked(requests=(asks(1, "out"),)), "it does not read that stream"),
        (Acknowledged(stream="in", position=1), "it does not write that stream"),
        (ExtensionAsked(stream="in", position=1, checkpoint=2), "it does not write that stream"),
        (ExtensionAsked(stream="out", position=1, checkpoint=2), "no checkpoint of a job that is coordinated"),
        (Saved(batch=2), "that checkpoint is not being saved"),
        (Saved(batch=3), "that checkpoint is not being saved"),
        (Restarted(permanent=at(1, 10, 5)), "it has begun"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(event: Event, problem: str) -> None:
    job = Driven(COORDINATED)
    job.batch(3, 30, 15, due=True)
    before = (job.machine.now, job.machine.permanent, list(job.machine.pending), dict(job.machine.acknowledged))
    with pytest.raises(RefusedError, match=rf"{problem}(.|\n)*What happened:\n  Committed\(batch=3(.|\n)*Keep\("):
        job.tell(event)
    machine = job.machine
    assert before == (machine.now, machine.permanent, list(machine.pending), dict(machine.acknowledged))
    assert job.acknowledged(15) == ["trim out 15", "save 3"]


def test_cycles_are_refused_where_checkpoints_would_wait_for_themselves() -> None:
    streams = {"ab": ("a", "b"), "bc": ("b", "c"), "cb": ("c", "b"), "cd": ("c", "d")}
    fits = {"a": COORDINATED, "b": EXTENDED, "c": UNCOORDINATED, "d": COORDINATED}
    check_jobs(fits, streams)
    check_jobs(
        dict.fromkeys("abcd", COORDINATED), {"ab": ("a", "b"), "ac": ("a", "c"), "bd": ("b", "d"), "cd": ("c", "d")}
    )
    with pytest.raises(GraphError, match="'c' is part of a cycle of jobs and its checkpoints are coordinated"):
        check_jobs(fits | {"c": COORDINATED}, streams)


def test_protocols_are_found_by_their_names() -> None:
    assert [protocol_named(name) for name in ("uncoordinated", "coordinated", "extended")] == [
        UNCOORDINATED,
        COORDINATED,
        EXTENDED,
    ]
    with pytest.raises(GraphError, match=r"uncoordinated.*; got 'exact'"):
        protocol_named("exact")


def test_the_design_notes_show_the_table_of_the_code() -> None:
    assert table() in (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    reached = {State.COMMITTED, *TRANSITIONS.values()}
    assert reached == {*State}
