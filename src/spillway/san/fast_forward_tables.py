"""Fast-forwards as tables of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spillway.errors import ModelError
from spillway.san import tables as t
from spillway.san.fast_forward import FastForward, Rise, Split
from spillway.san.programs import NONE, Programs


@dataclass(slots=True)
class ForwardRows:
    """The tables under construction."""

    forwards: list[list[int]] = field(default_factory=list)
    leads: list[float] = field(default_factory=list)
    clocks: list[tuple[int, int]] = field(default_factory=list)
    flow_steps: list[tuple[int, int, int, int]] = field(default_factory=list)
    counts: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    completions: list[tuple[int, int]] = field(default_factory=list)


def flatten_forwards(
    forwards: Sequence[FastForward],
    programs: Programs,
    places: Mapping[str, int],
    activities: Mapping[str, int],
    first_case: Mapping[str, int],
) -> ForwardRows:
    """Number the flows, counts and completions of every fast-forward of a net."""
    rows = ForwardRows()
    for forward in forwards:
        if not forward.clocks:
            raise ModelError("Fast-forward: it has no clock; name one with arrivals(activity).")
        for place in [place for read in forward.expressions() for place in read.places()]:
            if place not in places:
                raise ModelError(f"Fast-forward: place {place!r} is not in the net.")
        starts = [len(rows.clocks), len(rows.flow_steps), len(rows.counts), len(rows.completions)]
        rows.clocks += [(activities[name], flow.index) for name, flow in forward.clocks.items()]
        for step in forward.steps:
            if isinstance(step, Split):
                for i, (chance, part) in enumerate(zip(step.chances, step.parts, strict=True)):
                    what = t.NEXT_PART if i else t.FIRST_PART
                    rows.flow_steps.append((what, step.source.index, part.index, programs.add(chance)))
            elif isinstance(step, Rise):
                for i, (place, flow) in enumerate(step.gains):
                    what = t.NEXT_RISE if i else t.FIRST_RISE
                    rows.flow_steps.append((what, flow.index, step.target.index, places[place]))
            else:
                rows.flow_steps += [(t.MERGED, source.index, step.target.index, NONE) for source in step.sources]
        for count in forward.counts:
            taken_max = max(0, -count.times) * count.flow.per_arrival_max
            least = programs.add(count.at_least)
            rows.counts.append((places[count.place], count.flow.index, count.times, least, taken_max))
        for completion in forward.completions:
            rows.completions.append((first_case[completion.activity] + completion.case, completion.flow.index))
        ends = [len(rows.clocks), len(rows.flow_steps), len(rows.counts), len(rows.completions)]
        spans = [bound for pair in zip(starts, ends, strict=True) for bound in pair]
        rows.forwards.append([programs.add(forward.when), *spans, forward.flows])
        rows.leads.append(forward.lead)
    return rows
