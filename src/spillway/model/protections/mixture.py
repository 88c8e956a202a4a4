"""Operators that are protected each in a way of its own, as a plan has it.

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| kept or lost, as its own technique has it | what its own technique says | as there | one copy |

Every operator is laid out as its technique would lay out the whole flow. Where that keeps what a reader cannot take,
streams to this operator do; to others they drop it. Sources and sinks, and operators that are not named, are as without
protection. Techniques that run copies, or declare what is not one operator's, cannot stand beside others in one net.
What crashes leave is within a bound if it is for every operator named, each within its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from spillway.errors import ModelError
from spillway.model.construction import Building
from spillway.model.flow import Flow
from spillway.model.layout import SCRATCH, Layout
from spillway.model.protections.technique import Technique


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(Technique):
    """A technique for each operator named."""

    parts: Mapping[str, Technique]

    @property
    def name(self) -> str:
        return "mixture"

    @property
    def bounded(self) -> bool:
        parts = self.parts.values()
        return any(part.bounded for part in parts) and all(part.bounded or part.lossless for part in parts)

    def places_of(self, building: Building, index: int) -> None:
        name = building.flow.operators[index].name
        if name in self.parts:
            self.parts[name].places_of(building, index)

    def layout(self, flow: Flow) -> Layout:
        own = {flow.index(name): technique.layout(flow) for name, technique in self.parts.items()}
        for name, technique in self.parts.items():
            layout = own[flow.index(name)]
            alone = type(technique).places is not Technique.places or (
                type(technique).activities is not Technique.activities
            )
            if set(layout.copies) != {1} or alone:
                raise ModelError(
                    f"Operator {name!r}: {technique.name} cannot be modelled beside other protections in one net. "
                    f"Compare it by itself."
                )
        indexes = range(len(flow.operators))
        kept = [index for index in indexes if index in own and own[index].keeps_for(index)]
        catch_up = [layout.catch_up for layout in own.values() if layout.catch_up is not None]
        return Layout(
            flow=flow,
            copies=(1,) * len(flow.operators),
            groups=(-1,) * len(flow.operators),
            restarts=tuple(own[index].restarts[index] if index in own else SCRATCH for index in indexes),
            keeps=bool(kept),
            drops=frozenset(indexes) - frozenset(kept) if kept else frozenset(),
            catch_up=min(catch_up) if catch_up and kept else None,
            jobs=tuple(indexes),
            redo={
                index: own[index].redo[own[index].job(index)]
                for index in kept
                if own[index].job(index) in own[index].redo
            },
        )
