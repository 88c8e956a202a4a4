"""The figures of seed 003 as relations: all of them there, and judged as they say."""

from dataclasses import replace

import pytest

from spillway.papers.ecoc.evaluation import INTERVALS, PROCESSES
from spillway.papers.ecoc.figures import FIGURES, LONG, Curve, Measure, Relation
from spillway.papers.ecoc.judging import NO_INTERVAL, Samples, judge

Made = dict[tuple[Measure, Curve], dict[int, list[float]]]

LEVELS = {"unsafe": 1.0, "extended": 1.01, "coordinated": 1.02, "uncoordinated": 1.1}


def as_in_the_paper() -> Made:
    """Measurements that show everything that the text says, on both environments alike."""
    made: Made = {}

    def give(measure: Measure, curve: Curve, interval: int, value: float) -> None:
        made.setdefault((measure, curve), {})[interval] = [value - 0.001, value + 0.001]

    for place, (process, declared) in enumerate(PROCESSES.items()):
        for setting in declared.settings:
            curve = Curve(process=process, setting=setting)
            for interval in (NO_INTERVAL,) if setting == "unsafe" else INTERVALS:
                level = LEVELS[setting] * (1 + 0.1 * place)
                ratio = {"uncoordinated": 3.0 - 0.2 * place + (place == 1), "coordinated": 0.5, "extended": 0.4}
                overhead = ratio.get(setting, 0.0) + 0.01 * place
                rising = level * (1 + interval / 1e5 * (setting == "uncoordinated"))
                give("network_overhead", curve, interval, overhead)
                give("cpu", curve, interval, level)
                give("cpu_overhead", curve, interval, level - (1 + 0.1 * place))
                give("memory", curve, interval, rising)
                give("recovery_time", curve, interval, 2 - 0.1 * place)
                give("recovery_cpu", curve, interval, level)
                give("recovery_memory", curve, interval, 5.0)
                give("catch_up_time", curve, interval, 7.0)
                give("catch_up_cpu", curve, interval, 0.9)
                leaves = interval in LONG and (process, setting) == ("SP1", "uncoordinated")
                give("catch_up_memory", curve, interval, 8.0 if leaves else 5.0)
    return made


def test_every_figure_is_there_and_every_relation_has_a_name_of_its_own() -> None:
    assert {relation.figure for relation in FIGURES} == {*range(13, 22), 23, 24}
    assert len({relation.name for relation in FIGURES}) == len(FIGURES)
    assert all(relation.environment == ("server" if relation.figure > 22 else "mobile") for relation in FIGURES)
    assert all(relation.section == ("5.6" if relation.figure > 22 else "5.5") for relation in FIGURES)


def test_measurements_as_in_the_paper_hold() -> None:
    checks = judge(as_in_the_paper())
    assert [check.name for check in checks] == [relation.name for relation in FIGURES]
    assert not [check for check in checks if not check.holds]
    first = checks[0]
    assert first.name == "figure 13, network overhead: SP1 coordinated below SP1 uncoordinated"
    assert str(first.ours).startswith("0.5 against 3 at 500, 0.5 against 3 at 1000")
    assert first.paper == "ECOC reduces the overhead significantly. (figure 13, 5.5)"


@pytest.mark.parametrize("relation", FIGURES, ids=lambda relation: relation.name)
def test_measurements_of_the_contrary_do_not_hold(relation: Relation) -> None:
    made = as_in_the_paper()
    own = made[relation.measure, relation.curve]
    if relation.kind == "rises":
        values = [*own.values()]
        own.update(zip(own, reversed(values), strict=True))
    else:
        # At one of the intervals alone: a relation is one of all.
        last = NO_INTERVAL if relation.curve.setting == "unsafe" else relation.intervals[-1]
        own[last] = [value * 20 for value in own[last]]
    (check,) = judge(made, [relation])
    assert not check.holds


def relation(kind: str, **changes: object) -> Relation:
    one = next(relation for relation in FIGURES if relation.kind == kind)
    return replace(one, **{"intervals": INTERVALS[:2], **changes})


def judged(relation: Relation, mine: list[float], theirs: list[float] | None = None) -> bool:
    def samples(curve: Curve, values: list[float]) -> Samples:
        intervals = (NO_INTERVAL,) if curve.setting == "unsafe" else relation.intervals
        return {interval: [value] for interval, value in zip(intervals, values, strict=False)}

    made = {(relation.measure, relation.curve): samples(relation.curve, mine)}
    if relation.other is not None and theirs is not None:
        made[relation.measure, relation.other] = samples(relation.other, theirs)
    (check,) = judge(made, [relation])
    return check.holds


@pytest.mark.parametrize(
    ("kind", "slack", "mine", "theirs", "holds"),
    [
        ("below", 0.0, [1.0, 1.0], [1.1, 1.1], True),
        ("below", 0.0, [1.0, 1.1], [1.1, 1.1], False),
        ("not above", 0.0, [1.0, 1.1], [1.1, 1.1], True),
        ("not above", 0.1, [1.2, 1.1], [1.1, 1.1], True),
        ("not above", 0.1, [1.3, 1.1], [1.1, 1.1], False),
        ("alike", 0.1, [1.0, 1.0], [1.1, 0.92], True),
        ("alike", 0.1, [1.0, 1.0], [1.2, 1.0], False),
        ("alike", 0.1, [1.0, 1.0], [1.0, 0.8], False),
        ("flat", 0.1, [1.0, 1.09], None, True),
        ("flat", 0.1, [1.2, 1.0], None, False),
        ("rises", 0.0, [1.0, 1.2], None, True),
        ("rises", 0.0, [1.2, 1.2], None, False),
    ],
)
def test_kinds(kind: str, slack: float, mine: list[float], theirs: list[float] | None, holds: bool) -> None:
    other = Curve(process="SP2", setting="uncoordinated") if theirs else None
    assert judged(relation(kind, slack=slack, other=other), mine, theirs) is holds


def test_nothing_is_said_of_what_was_not_measured() -> None:
    made = as_in_the_paper()
    one = FIGURES[0]
    assert one.other is not None
    del made[one.measure, one.other][INTERVALS[-1]]
    assert judge(made, [one]) == []
    assert judge({}) == []


@pytest.mark.parametrize("name", PROCESSES)
def test_processes_are_our_applications(name: str) -> None:
    process = PROCESSES[name]
    feed = process.app.generator(seed=1, tuples=10, tuples_per_batch=10)
    graph = process.app.build(feed, **process.options)
    assert tuple(graph.checked().operators) == process.operators
    assert process.failing in process.operators and process.settings[0] == "unsafe"
    # Feedback is what only the extended setting can coordinate.
    loops = sum(edge.feedback for edge in graph.edges)
    assert loops == {"SP1": 0, "SP2": 0, "SP3": 1, "SP4": 2}[name]
    assert ("coordinated" in process.settings) == (loops == 0)
