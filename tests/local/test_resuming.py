"""Runs resumed with something else than what wrote their state: refused in words, before anything runs or changes."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.backup.bench import listing
from tests.operators.running import feed_of, tuples

import spillway as sw
from spillway.errors import BackupError, BoundLostError, ForeignBackupError, SpillwayError, StateError
from spillway.graph.graph import Graph

BATCHES = [tuples(4 * i, k=[f"a{i % 2}", "b", "c", "d"], k2=["x", "x", "y", "z"], v=[1, 2, 3, 4]) for i in range(6)]
START_ANEW = "start anew in other folders (checkpoint=, state= and backups=, whichever are named)."


def count(**options: Any) -> sw.operators.Count:
    return sw.operators.Count("c", **{"key": "k", "protect": sw.Exact(), **options})


def graph_of(operator: sw.Operator, *, batches: int = 6, shards: int = 2) -> Graph:
    graph = sw.Graph("g", shards=shards)
    graph.sink("out", graph.add(operator, graph.source("in", feed_of(BATCHES[:batches]))), sw.Memory())
    return graph


class Places:
    """The folders of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.backups = folder / "backups"

    def run(self, operator: sw.Operator, *, batch: int = 0, batches: int = 6, shards: int = 2) -> pa.Table:
        graph = graph_of(operator, batches=batches, shards=shards)
        with sw.LocalRun(graph, state=self.state, backups=str(self.backups), batch=batch) as run:
            run.run()
            return run.result("out")

    def refused(self, operator: sw.Operator, *, batch: int = 3, shards: int = 2) -> SpillwayError:
        """The error that making the run raises; nothing may have changed."""
        before = listing(self.folder)
        graph = graph_of(operator, shards=shards)
        with pytest.raises(SpillwayError) as refused:
            sw.LocalRun(graph, state=self.state, backups=str(self.backups), batch=batch)
        assert listing(self.folder) == before
        return refused.value


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


@pytest.fixture
def stopped(places: Places) -> Places:
    """The folders of a run that stopped after three batches."""
    places.run(count(), batches=3)
    return places


def lose_memory(places: Places) -> None:
    shutil.rmtree(places.state)


def lose_backups(places: Places) -> None:
    shutil.rmtree(places.backups)


def keep_both(places: Places) -> None:
    pass


STATE = "state was 'counts HashTable(string,int64,max)' and is 'counts HashTable(string,int64,l1)'"
CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"key": "k2"}, "key was 'k' and is 'k2'"),
    ({"value": "v"}, "value was none and is 'v'"),
    ({"window": sw.Hopping(count=8)}, "window was none and is Hopping(count=8)"),
    ({"metric": "l1"}, STATE),
    ({"key": "k2", "value": "v"}, "key was 'k' and is 'k2'; value was none and is 'v'"),
]


@pytest.mark.parametrize(("options", "change"), CHANGED, ids=[change for _, change in CHANGED])
class TestAChangedMeaning:
    def test_is_refused_by_memory(self, stopped: Places, options: dict[str, Any], change: str) -> None:
        error = stopped.refused(count(**options))
        assert isinstance(error, StateError)
        assert str(error) == (
            f"Operator 'c' means something else than when its memory in {stopped.state / 'g/c/0000'} was written: "
            f"{change}. Put it back as it was, or {START_ANEW}"
        )

    def test_is_refused_by_backups(self, stopped: Places, options: dict[str, Any], change: str) -> None:
        lose_memory(stopped)
        error = stopped.refused(count(**options))
        assert isinstance(error, ForeignBackupError)
        assert str(error) == (
            f"Operator 'c' means something else than when its backups in {stopped.backups / 'g/c/0000-of-0002'} were "
            f"written: {change}. Put it back as it was, or {START_ANEW}"
        )


class Total(sw.Operator):
    """A user's own operator."""

    schema = sw.columns(total=pa.float64())
    total = sw.Number()
    step = 1

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.total += self.step * batch.num_rows
        yield self.out(total=self.total)


def same_name(**attributes: Any) -> type[sw.Operator]:
    """The class as it is after its source was edited."""
    return type("Total", (Total,), attributes)


class Twice(Total):
    step = 2


@pytest.mark.parametrize(
    ("edited", "change"),
    [
        (Twice("c"), "class was Total and is Twice"),
        (same_name(version=2, step=2)("c"), "version was 1 and is 2"),
        (same_name(parameters=("step",))("c"), "step was none and is 1"),
    ],
    ids=["another class", "another version", "another parameter"],
)
@pytest.mark.parametrize("lose", [keep_both, lose_memory], ids=["memory", "backups"])
def test_an_operator_of_ones_own_says_when_it_is_another(
    places: Places, edited: sw.Operator, change: str, lose: Callable[[Places], None]
) -> None:
    places.run(Total("c"), batches=3)
    lose(places)
    assert f"written: {change}. Put it back" in str(places.refused(edited))


@pytest.mark.parametrize(
    "same",
    [
        count(protect=sw.Approximate(theta=3)),
        count(protect=sw.Checkpoint(every=5)),
        count(count_as="counted"),
        sw.operators.Count("c", key=["k"]),  # type: ignore[arg-type]
    ],
    ids=["approximate", "checkpoint", "another name for the output", "the key as a list"],
)
def test_what_does_not_touch_state_may_change(stopped: Places, same: sw.Operator) -> None:
    found = stopped.run(same, batch=3)
    assert found[found.column_names[-1]].to_pylist()[-1] == 6


def test_the_type_of_a_key_is_part_of_its_meaning(places: Places) -> None:
    sketch = sw.operators.CountMin("c", key="k", value="v", width=16, protect=sw.Exact())
    places.run(sketch, batches=3)
    graph = sw.Graph("g")
    numbers = feed_of([tuples(k=[1], v=[1])])
    graph.sink("out", graph.add(sketch, graph.source("in", numbers)), sw.Memory())
    with pytest.raises(StateError, match=r"written: the type of 'k' was string and is int64. Put it back"):
        sw.LocalRun(graph, state=places.state, backups=str(places.backups), batch=3)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (sw.Nothing(), sw.Exact(), "was protected without backups and is to be protected by Exact, which needs them"),
        (sw.Exact(), sw.Nothing(), "was protected with backups and is to be protected by Nothing, which keeps none"),
    ],
    ids=["from nothing", "to nothing"],
)
def test_whether_there_are_backups_cannot_change(
    places: Places, before: sw.Protection, after: sw.Protection, sentence: str
) -> None:
    places.run(count(protect=before), batches=3)
    assert str(places.refused(count(protect=after))) == (
        f"Operator 'c' {sentence}: its memory in {places.state / 'g/c/0000'} is laid out for the one and not for the "
        f"other. Protect it as it was, or {START_ANEW}"
    )


class TestShards:
    """Another number of shards: memory there or gone, backups there or gone, a later batch or the first."""

    ADVICE = f"Say rescale=True (--rescale) to have its state divided anew, run it with 2 shards, or {START_ANEW}"

    @pytest.mark.parametrize("shards", [1, 3])
    @pytest.mark.parametrize("lose", [keep_both, lose_backups], ids=["backups there", "backups gone"])
    def test_memory_names_them(self, stopped: Places, shards: int, lose: Callable[[Places], None]) -> None:
        lose(stopped)
        error = stopped.refused(count(), shards=shards)
        assert isinstance(error, StateError)
        assert str(error) == (
            f"Operator 'c' had 2 shards when its memory in {stopped.state / 'g/c/0000'} was written and has {shards} "
            f"now. {self.ADVICE}"
        )

    @pytest.mark.parametrize("shards", [1, 3])
    def test_backups_name_them(self, stopped: Places, shards: int) -> None:
        lose_memory(stopped)
        error = stopped.refused(count(), shards=shards)
        assert isinstance(error, ForeignBackupError)
        assert str(error) == (
            f"Operator 'c' had 2 shards when its backups in {stopped.backups / 'g/c'} were written and has {shards} "
            f"now. {self.ADVICE}"
        )

    def test_so_do_backups_in_which_nothing_was_saved_yet(self, places: Places) -> None:
        places.run(count(protect=sw.Approximate(theta=1e9)), batches=3)
        lose_memory(places)
        assert "had 2 shards when its backups" in str(places.refused(count(), shards=3))

    def test_what_else_changed_is_said_too(self, stopped: Places) -> None:
        assert str(stopped.refused(count(key="k2"), shards=3)).endswith(
            f"and has 3 now. It also means something else: key was 'k' and is 'k2'. {self.ADVICE}"
        )

    def test_with_both_gone_a_shard_misses_its_backups(self, stopped: Places) -> None:
        lose_memory(stopped)
        lose_backups(stopped)
        with pytest.raises(BoundLostError, match="has no record of it, though the run is at batch 3"):
            stopped.run(count(), batch=3, shards=3)

    def test_without_backups_all_that_is_lost_is_lost(self, places: Places) -> None:
        places.run(count(protect=sw.Nothing()), batches=3)
        lose_memory(places)
        found = places.run(count(protect=sw.Nothing()), batch=3, shards=3)
        assert max(found["count"].to_pylist()) == 3

    def test_following_the_advice_works(self, stopped: Places) -> None:
        stopped.refused(count(), shards=3)
        assert max(stopped.run(count(), batch=3, shards=2)["count"].to_pylist()) == 6
        elsewhere = Places(stopped.folder / "elsewhere")
        assert max(elsewhere.run(count(), shards=3)["count"].to_pylist()) == 6


class TestANewRunInAnOldFolder:
    """The first batch, with memory of its own and backups of an earlier run."""

    def earlier(self, places: Places, shards: int) -> str:
        return (
            f"Backups in {places.backups / 'g/c'} belong to an earlier run of graph 'g': operator 'c' has {shards} "
            f"shards there, up to batch 2, and this run begins at batch 0. Resume that run from where it stopped, name "
            f"another folder with backups=, or remove this one."
        )

    @pytest.mark.parametrize("shards", [1, 2, 3])
    def test_is_refused(self, stopped: Places, shards: int) -> None:
        lose_memory(stopped)
        error = stopped.refused(count(), batch=0, shards=shards)
        assert isinstance(error, BackupError)
        assert str(error) == self.earlier(stopped, 2)

    def test_is_refused_whatever_it_means(self, stopped: Places) -> None:
        lose_memory(stopped)
        assert str(stopped.refused(count(key="k2"), batch=0)) == self.earlier(stopped, 2)

    @pytest.mark.parametrize("shards", [2, 3])
    def test_may_go_on_where_nothing_was_saved(self, places: Places, shards: int) -> None:
        places.run(count(protect=sw.Approximate(theta=1e9)), batches=3)
        lose_memory(places)
        found = places.run(count(protect=sw.Approximate(theta=1e9)), shards=shards)
        assert max(found["count"].to_pylist()) == 6

    def test_a_first_batch_may_be_run_again(self, places: Places) -> None:
        places.run(count(), batches=1)
        lose_memory(places)
        assert max(places.run(count())["count"].to_pylist()) == 6


class TestNames:
    def test_an_operator_that_was_renamed_is_missed(self, stopped: Places) -> None:
        error = stopped.refused(sw.operators.Count("renamed", key="k"))
        assert str(error) == (
            f"There is state of operator 'c' in {stopped.state / 'g'}, which graph 'g' does not have, and none of "
            f"operator 'renamed', though the run is at batch 3. If it is the same operator, call it 'c' again; "
            f"otherwise {START_ANEW}"
        )

    def test_so_it_is_if_only_backups_are_left(self, stopped: Places) -> None:
        lose_memory(stopped)
        error = stopped.refused(sw.operators.Count("renamed", key="k"))
        assert f"There is state of operator 'c' in {stopped.backups / 'g'}, which" in str(error)

    def test_one_without_backups_too(self, places: Places) -> None:
        places.run(count(protect=sw.Nothing()), batches=3)
        error = places.refused(sw.operators.Count("renamed", key="k", protect=sw.Nothing()))
        assert "none of operator 'renamed'" in str(error)

    def test_an_operator_may_be_removed(self, places: Places) -> None:
        def graph(*extra: sw.Operator) -> Graph:
            graph = graph_of(count())
            for operator in extra:
                graph.sink(f"out-{operator.name}", graph.add(operator, sw.graph.Stream("in", "out")), sw.Discard())
            return graph

        options: dict[str, Any] = {"state": places.state, "backups": str(places.backups)}
        with sw.LocalRun(graph(Total("more")), **options) as run:
            for _ in range(3):
                run.step()
        with sw.LocalRun(graph(), batch=3, **options) as run:
            run.run()
            assert max(run.result("out")["count"].to_pylist()) == 6


class TestTheNoteInMemory:
    """It explains; what decides is the fingerprint in the header."""

    def note(self, places: Places, index: int = 0) -> Path:
        return places.state / f"g/c/{index:04d}/meaning.json"

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"key": 3}', '{"key": "\'k2\'"}', None])
    def test_is_not_trusted(self, stopped: Places, content: str | None) -> None:
        if content is None:
            self.note(stopped).unlink()
        else:
            self.note(stopped).write_text(content)
        assert str(stopped.refused(count(key="k2"))) == (
            f"Operator 'c' means something else than when its memory in {stopped.state / 'g/c/0000'} was written; what "
            f"it was can no longer be read. Put it back as it was, or {START_ANEW}"
        )
        assert max(stopped.run(count(), batch=3)["count"].to_pylist()) == 6

    def test_says_everything(self, stopped: Places) -> None:
        assert json.loads(self.note(stopped).read_text()) == {
            "graph": "g",
            "operator": "c",
            "backups": "kept",
            "shards": "2",
            "class": "Count",
            "version": "1",
            "key": "'k'",
            "state": "'counts HashTable(string,int64,max)'",
            "the type of 'k'": "string",
        }

    def test_of_a_shard_that_was_never_made_counts_for_nothing(self, places: Places) -> None:
        """As a process leaves it that was killed between the note and the header."""
        folder = self.note(places).parent
        folder.mkdir(parents=True)
        self.note(places).write_text('{"key": "\'other\'"}')
        assert max(places.run(count())["count"].to_pylist()) == 6
        assert json.loads(self.note(places).read_text())["key"] == "'k'"

    def test_every_shard_is_looked_at(self, stopped: Places) -> None:
        shutil.rmtree(self.note(stopped).parent)
        error = stopped.refused(count(key="k2"))
        assert str(stopped.state / "g/c/0001") in str(error)


def test_a_task_that_finds_another_meaning_refuses_too(stopped: Places) -> None:
    """The check at the start is not the only one: memory may be put there later."""
    aside = stopped.folder / "aside"
    stopped.state.rename(aside)
    shutil.move(stopped.backups, stopped.folder / "other")
    with sw.LocalRun(graph_of(count(key="k2")), state=stopped.state, backups=str(stopped.backups), batch=3) as run:
        shutil.copytree(aside, stopped.state, dirs_exist_ok=True)
        with pytest.raises(StateError, match="written: key was 'k' and is 'k2'"):
            run.step()
        shutil.rmtree(stopped.state / "g")
        shutil.copytree(stopped.folder / "other", stopped.backups)
        with pytest.raises(ForeignBackupError, match="written: key was 'k' and is 'k2'"):
            run.step()


class TestWhatIsPassedOver:
    """What does not concern this run, or what only the shard can judge that needs it."""

    def test_backups_that_cannot_be_read(self, stopped: Places) -> None:
        for manifest in stopped.backups.rglob("manifest-*.json"):
            manifest.write_bytes(b"?")
        graph = graph_of(count())
        sw.LocalRun(graph, state=stopped.state, backups=str(stopped.backups), batch=3).close()
        lose_memory(stopped)
        # All that it held is gone, and that is told: never a run that fails for ever.
        with sw.LocalRun(graph, state=stopped.state, backups=str(stopped.backups), batch=3) as run:
            run.step()
            assert {row.damage.partition(" in ")[0] for row in run.records()} == {"2 newer manifests"}

    def test_backups_of_other_shards_beside_ones_own(self, stopped: Places) -> None:
        for index in range(3):
            other = stopped.backups / f"g/c/{index:04d}-of-0003"
            shutil.copytree(stopped.backups / "g/c/0000-of-0002", other)
        assert max(stopped.run(count(), batch=3)["count"].to_pylist()) == 6

    def test_files_of_others(self, stopped: Places) -> None:
        for folder in (stopped.state / "g", stopped.state / "g/c", stopped.backups / "g", stopped.backups / "g/c"):
            (folder / "notes").mkdir()
            (folder / "readme.txt").write_text("not ours")
        assert max(stopped.run(count(), batch=3)["count"].to_pylist()) == 6
