"""What would change where the time of a Spark query goes: our settings, and our state instead of Spark's.

Each piece of advice rests on a figure of the query's own reports, and says what can be gained at most: that part of
a batch, as if it took no time at all afterwards. What is no more than a tenth of a batch is not worth a word.
"""

from collections.abc import Callable
from dataclasses import replace

from spillway.records.explaining import STATE, Advice, Explanation, Part, StateOperator

_SHARE_MIN = 0.1
_IDLE_MIN = 0.1
_TASKS_PER_CORE = 4

# Spark's names of operators whose work ``sw.protect`` takes over.
_PROTECTED = {"stateStoreSave"}
LOG_SETTING = (
    "spark.sql.streaming.checkpointFileManagerClass="
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def advised(found: Explanation) -> Explanation:
    """The same with advice, what can bring most first."""
    if not found.batches:
        return found
    rules: tuple[Callable[[Explanation], Advice | None], ...] = (_state, _logs, _planning, _sources, _tasks)
    given = sorted((one for rule in rules if (one := rule(found))), key=lambda one: -one.share_max)
    return replace(found, advice=(*_waiting(found), *(given or [_nothing(found)])))


def _waiting(found: Explanation) -> list[Advice]:
    if found.idle_share < _IDLE_MIN:
        return []
    after = "Whatever makes a batch shorter brings its rows out sooner, and lets no more of them through."
    text = (
        f"It keeps up: {found.idle_ms:,.0f} of {found.idle_ms + found.batch_ms:,.0f} ms ({found.idle_share:.0%}) it "
        f"waits, for its trigger or for rows. {after}"
    )
    return [Advice(about="waiting", share_max=0.0, text=text)]


def _state(found: Explanation) -> Advice | None:
    spent_ms, share = sum(found.parts_ms[part] for part in STATE), found.share(*STATE)
    share_max = found.state_ms_max / found.batch_ms if found.batch_ms else 0.0
    if share_max < _SHARE_MIN:
        return None
    fit = [operator for operator in found.operators if operator.name in _PROTECTED]
    names = ", ".join(dict.fromkeys(operator.name for operator in fit or found.operators))
    how = (
        f"Spark's state takes {found.state_ms_max:,.0f} ms of a batch ({share_max:.0%}) at most, and "
        f"{spent_ms:,.0f} ms ({share:.0%}) if it is spread evenly over its tasks; the time of rows on their way into "
        f"it is in that."
    )
    if len(fit) != len(found.operators) or len(fit) != 1:
        why = "has more than one such operator" if len(fit) == len(found.operators) else "is no single aggregation"
        text = f"{how} sw.protect keeps the state of one aggregation; this query {why} ({names})."
        return Advice(about="state", share_max=0.0, text=text)
    return Advice(
        about="state",
        share_max=share_max,
        text=f"{how} sw.protect would keep the state of {names} ({_store(fit[0])}) in memory and back it up only as "
        f"often as its protection asks for: at most {share_max:.0%} of a batch can go.",
    )


def _store(operator: StateOperator) -> str:
    return "now in a store unknown" if operator.provider == "unknown" else f"now in Spark's {operator.provider} store"


def _logs(found: Explanation) -> Advice | None:
    share = found.share(Part.LOGS)
    if share < _SHARE_MIN:
        return None
    text = (
        f"Notes of offsets and commits take {found.parts_ms[Part.LOGS]:,.0f} ms of a batch ({share:.0%}). If its "
        f"checkpoint is a local folder, Spark starts several processes for every note, and {LOG_SETTING}, set before "
        f"the query starts, has it start none: at most {share:.0%} of a batch can go. It no longer keeps two drivers "
        f"out of one checkpoint; sw.run sets it, and does that itself."
    )
    return Advice(about="logs", share_max=share, text=text)


def _planning(found: Explanation) -> Advice | None:
    share = found.share(Part.PLANNING)
    if share < _SHARE_MIN:
        return None
    text = (
        f"Planning takes {found.parts_ms[Part.PLANNING]:,.0f} ms of every batch ({share:.0%}), however many rows it "
        f"has. A longer trigger interval has more rows share it. A graph on sw.run plans what lies behind its sources "
        f"once: at most {share:.0%} of a batch can go."
    )
    return Advice(about="planning", share_max=share, text=text)


def _sources(found: Explanation) -> Advice | None:
    share = found.share(Part.SOURCES)
    if share < _SHARE_MIN:
        return None
    text = (
        f"Sources take {found.parts_ms[Part.SOURCES]:,.0f} ms of a batch ({share:.0%}) to say what there is. That is "
        f"theirs (for files: how many lie in the folder), and nothing of ours changes it."
    )
    return Advice(about="sources", share_max=0.0, text=text)


def _tasks(found: Explanation) -> Advice | None:
    most, slots = max((one.partitions for one in found.operators), default=0), found.tasks_at_a_time
    if slots is None or most <= _TASKS_PER_CORE * slots:
        return None
    text = (
        f"State lies in {most:,} partitions, of which {slots} are worked on at a time: each is a task of every batch, "
        f"with a commit of its own. spark.sql.shuffle.partitions={slots} has fewer; a checkpoint keeps the number it "
        f"began with. What that saves the reports do not tell."
    )
    return Advice(about="partitions", share_max=0.0, text=text)


def _nothing(found: Explanation) -> Advice:
    share = found.share(Part.ROWS)
    text = (
        f"Nothing of ours would change much: {share:.0%} of a batch goes to the rows themselves, and no other part is "
        f"a tenth of it."
    )
    return Advice(about="rows", share_max=0.0, text=text)
