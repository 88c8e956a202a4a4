"""An error of an operator's own code names the operator and the line; nobody else's does."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.local.test_losses import SCHEMA, feed

import spillway as sw
from spillway.backup.keeper import Step
from spillway.cli.main import main
from spillway.errors import InputError


class Failing(sw.Operator):
    """Fails where it is told to."""

    schema = sw.columns(rows=pa.int64())
    seen = sw.Number(dtype="int64")

    def __init__(self, name: str, at: str, error: Callable[[], Exception]) -> None:
        super().__init__(name, protect=sw.Nothing())
        self.at, self.error = at, error

    def begin(self) -> None:
        self._fail("begin")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        yield self.out(rows=batch.num_rows)
        self._fail("process")

    def finish(self) -> Iterator[sw.Out]:
        self._fail("finish")
        yield from ()

    def _fail(self, at: str) -> None:
        if at == self.at:
            raise self.error()


LINE = inspect.getsourcelines(Failing._fail)[1] + 2
PLACE = f"at line {LINE} of {__file__}, in _fail."


def graph(operator: sw.Operator, *behind: sw.Operator) -> sw.Graph:
    drawn = sw.Graph("failing")
    stream = drawn.source("in", feed())
    for one in (operator, *behind):
        stream = drawn.add(one, stream)
    drawn.sink("out", stream, sw.Discard())
    return drawn


def notes(drawn: sw.Graph, kind: type[Exception], **options: Any) -> list[str]:
    with sw.LocalRun(drawn, **options) as run, pytest.raises(kind) as raised:
        run.run()
    return list(getattr(raised.value, "__notes__", []))


@pytest.mark.parametrize("at", ["begin", "process", "finish"])
def test_the_operator_and_its_line_are_noted(at: str) -> None:
    found = notes(graph(Failing("wrong", at, lambda: ValueError("no\nluck"))), ValueError)
    assert found == [f"Operator 'wrong' raised ValueError: no luck, {PLACE}"]


def test_the_one_behind_is_blamed_for_its_own() -> None:
    found = notes(
        graph(Failing("right", "never", ValueError), Failing("wrong", "process", lambda: KeyError("k"))), KeyError
    )
    assert found == [f"Operator 'wrong' raised KeyError: 'k', {PLACE}"]


def test_a_function_of_the_users_in_an_operator_of_ours_is_named() -> None:
    def divide(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, 1 // 0)

    (found,) = notes(graph(sw.operators.Apply("divide", divide, SCHEMA)), ZeroDivisionError)
    line = inspect.getsourcelines(divide)[1] + 1
    assert found.startswith("Operator 'divide' raised ZeroDivisionError: ")
    assert found.endswith(f", at line {line} of {__file__}, in divide.")


def test_our_own_sentences_and_errors_of_others_stay_as_they_are() -> None:
    assert notes(graph(Failing("wrong", "process", lambda: InputError("no such column"))), InputError) == []

    def fail(step: Step, operator: str, shard: int, batch: int) -> None:
        raise OverflowError(step)

    assert notes(graph(Failing("right", "never", ValueError)), OverflowError, observe=fail) == []


def failing() -> sw.Graph:
    """For a command line."""
    return graph(Failing("wrong", "process", lambda: ValueError("no luck")))


def test_commands_tell_it_in_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["profile", f"{__name__}:failing", "--output", str(tmp_path / "p.json")]) == 1
    told = capsys.readouterr().err
    assert f"spillway: Operator 'wrong' raised ValueError: no luck, {PLACE}" in told and "Traceback" not in told
