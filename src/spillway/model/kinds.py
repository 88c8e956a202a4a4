"""The operator types of seed 001, appendix A, as ports and cases of one template.

| type | ports | what a tuple puts out |
|---|---|---|
| source | the feed from outside | itself |
| sink | in | nothing: it has arrived |
| functor | in | itself, with the probability of its selectivity |
| aggregate | in | as a functor; with a clock instead, one tuple each time the clock fires |
| join, barrier | two or more | each port with its own cost, selectivity and state |
| sort | in, clock | itself; a punctuation each time the window ends |
| punctor | in | itself, and sometimes a punctuation behind it |
| split | in | itself, on one of several output ports |
| delay | in | itself, later; any number wait at once |

Punctuations travel on an output port of their own. What reads them needs a port for them; a port that nothing reads
costs nothing.
"""

import math
from collections.abc import Mapping, Sequence

from spillway.errors import ModelError
from spillway.model.flow import Case, FlowOperator, Port, Settling

USUAL = Settling()


def puts(selectivity: float) -> tuple[Case, ...]:
    """Cases of one output port whose mean is the selectivity: a whole number of tuples, or one more.

    >>> [(round(case.probability, 3), case.puts) for case in puts(2.25)]
    [(0.75, (2,)), (0.25, (3,))]
    >>> [(case.probability, case.puts) for case in puts(0.182)]
    [(0.182, (1,))]
    """
    if not 0 <= selectivity < math.inf:
        raise ModelError(f"A selectivity is a number, 0 or more; got {selectivity!r}.")
    whole = math.floor(selectivity)
    more = selectivity - whole
    cases = ((1 - more, whole), (more, whole + 1))
    return tuple(Case(probability=chance, puts=(put,)) for chance, put in cases if chance > 0 and put > 0)


def several(selectivities: Sequence[float]) -> tuple[Case, ...]:
    """Cases of several output ports: one of them at most if that can be (a split), otherwise each for itself.

    >>> [case.puts for case in several([0.3, 0.7])]
    [(1, 0), (0, 1)]
    """
    if sum(selectivities) <= 1 + 1e-9:
        width = len(selectivities)
        return tuple(
            Case(probability=chance, puts=tuple(int(at == output) for at in range(width)))
            for output, chance in enumerate(selectivities)
            if chance > 0
        )
    joint: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    for selectivity in selectivities:
        own = [(case.probability, case.puts[0]) for case in puts(selectivity)]
        nothing = 1 - sum(chance for chance, _ in own)
        if nothing > 1e-12:
            own.append((nothing, 0))
        joint = [(left * right, (*before, put)) for left, before in joint for right, put in own]
    return tuple(Case(probability=chance, puts=put) for chance, put in joint if any(put))


def source(name: str, *, cost_s: float) -> FlowOperator:
    return FlowOperator(name=name, kind="source", ports=(Port(name="feed", cost_s=cost_s, cases=puts(1.0)),))


def sink(name: str, *, cost_s: float) -> FlowOperator:
    return FlowOperator(name=name, kind="sink", ports=(Port(name="in", cost_s=cost_s),), outputs=())


def functor(name: str, *, cost_s: float, selectivity: float = 1.0) -> FlowOperator:
    """A filter, a projection or a transformation: to the model they differ in selectivity alone."""
    return FlowOperator(name=name, kind="functor", ports=(Port(name="in", cost_s=cost_s, cases=puts(selectivity)),))


def aggregate(
    name: str,
    *,
    cost_s: float,
    state_tuples: int,
    selectivity: float = 1.0,
    every_s: float | None = None,
    settling: Settling = USUAL,
) -> FlowOperator:
    """A window that puts out by the tuple, or, with `every_s`, by the clock."""
    cases = puts(selectivity) if every_s is None else ()
    window = Port(name="in", cost_s=cost_s, cases=cases, state_tuples=state_tuples, settling=settling)
    clock = () if every_s is None else (Port(name="clock", cost_s=cost_s, cases=puts(1.0), trigger_s=every_s),)
    return FlowOperator(name=name, kind="aggregate", ports=(window, *clock))


def join(name: str, ports: Mapping[str, Port], *, kind: str = "join") -> FlowOperator:
    """Streams correlated over windows; only what arrives on a port triggers output."""
    if len(ports) < 2:
        raise ModelError(f"Operator {name!r}: a {kind} wants two ports or more; got {len(ports)}.")
    return FlowOperator(name=name, kind=kind, ports=tuple(ports.values()))


def barrier(name: str, ports: Sequence[str], *, cost_s: float) -> FlowOperator:
    """One tuple for one of each port: approximated, as a tuple of any of n ports puts out with chance 1/n."""
    each = {port: Port(name=port, cost_s=cost_s, cases=puts(1 / len(ports))) for port in ports}
    return join(name, each, kind="barrier")


def sort(name: str, *, cost_s: float, state_tuples: int, window_s: float, settling: Settling = USUAL) -> FlowOperator:
    """Tuples pass one by one; each end of the window puts a punctuation on the second output port."""
    passing = (Case(probability=1.0, puts=(1, 0)),)
    ends = (Case(probability=1.0, puts=(0, 1)),)
    window = Port(name="in", cost_s=cost_s, cases=passing, state_tuples=state_tuples, settling=settling)
    clock = Port(name="clock", cost_s=cost_s, cases=ends, trigger_s=window_s)
    return FlowOperator(name=name, kind="sort", ports=(window, clock), outputs=("out", "punctuation"))


def punctor(name: str, *, cost_s: float, selectivity: float, punctuation: float) -> FlowOperator:
    """A functor that puts a punctuation behind a tuple with probability `punctuation`."""
    if not 0 <= punctuation <= selectivity <= 1:
        raise ModelError(f"Operator {name!r}: 0 <= punctuation <= selectivity <= 1 is wanted.")
    cases = (
        Case(probability=selectivity - punctuation, puts=(1, 0)),
        Case(probability=punctuation, puts=(1, 1)),
    )
    port = Port(name="in", cost_s=cost_s, cases=cases)
    return FlowOperator(name=name, kind="punctor", ports=(port,), outputs=("out", "punctuation"))


def split(name: str, *, cost_s: float, shares: Mapping[str, float]) -> FlowOperator:
    """Each tuple to one of several output ports; shares that add up to less than 1 drop the rest."""
    port = Port(name="in", cost_s=cost_s, cases=several(tuple(shares.values())))
    return FlowOperator(name=name, kind="split", ports=(port,), outputs=tuple(shares))


def delay(name: str, *, delay_s: float) -> FlowOperator:
    """Every tuple waits `delay_s` on average, exponentially, and independently of the others."""
    port = Port(name="in", cost_s=delay_s, cases=puts(1.0), parallel=True)
    return FlowOperator(name=name, kind="delay", ports=(port,))
