"""A chart of stacks: what a whole is made of, over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from spillway.errors import InputError
from spillway.report.frame import Frame, pixel
from spillway.report.ink import colour
from spillway.report.scales import Scale, label, limits, ticks

STACKS_MAX = 200


@dataclass(frozen=True, slots=True)
class Stack:
    """What lies over one stretch of the horizontal axis: a height for each layer, lowest first."""

    first: int
    last: int
    heights: Sequence[float]

    @property
    def name(self) -> str:
        """The stretch in words.

        >>> Stack(3, 3, []).name, Stack(4, 9, []).name
        ('3', '4 to 9')
        """
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,} to {self.last:,}"


def stacked_chart(
    layers: Sequence[str],
    stacks: Sequence[Stack],
    *,
    title: str,
    x_label: str,
    y_label: str,
    width: int = 640,
    height: int = 360,
) -> str:
    """A self-contained SVG of the stacks side by side; stretches are whole numbers, in ascending order.

    >>> svg = stacked_chart(["a", "b"], [Stack(0, 0, [1.0, 2.0])], title="T", x_label="batch", y_label="ms")
    >>> "batch 0, b: 2" in svg
    True
    """
    if len(stacks) > STACKS_MAX:
        raise InputError(f"Chart {title!r}: {len(stacks)} stacks are more than {STACKS_MAX}; put some together first.")
    frame = Frame(title, layers, width=width, height=height, x_label=x_label, y_label=y_label, boxes=True)
    tops = [sum(stack.heights) for stack in stacks]
    low, high = limits(tops, log=False, from_zero=True)
    frame.make_room_for([label(tick) for tick in ticks(low, high, log=False)])
    y = Scale(low=low, high=high, start=frame.bottom, end=frame.top)
    first, last = (stacks[0].first, stacks[-1].last) if stacks else (0, 0)
    x = Scale(low=first - 0.5, high=last + 0.5, start=frame.left, end=frame.right)
    whole = [tick for tick in ticks(x.low, x.high, log=False) if tick.is_integer()] or [float(first)]
    parts = [
        *frame.y_axis([(y.place(tick), label(tick)) for tick in ticks(low, high, log=False)]),
        *frame.x_axis([(x.place(tick), label(tick)) for tick in whole]),
        *(part for index in range(len(layers)) for part in _layer(index, layers[index], stacks, x, y, x_label)),
        frame.line("axis", y=frame.bottom),
    ]
    told = "; ".join(
        f"{layer} {sum(stack.heights[index] for stack in stacks) / max(len(stacks), 1):,.4g}"
        for index, layer in enumerate(layers)
    )
    description = f"Stacks of {y_label} over {x_label}, the layers from below. On average: {told}."
    return frame.svg(parts, description=description)


def _layer(index: int, name: str, stacks: Sequence[Stack], x: Scale, y: Scale, x_label: str) -> list[str]:
    drawn = [f'<g class="series {colour(index)}" data-series="{index}">']
    for stack in stacks:
        below = sum(stack.heights[:index])
        top, bottom = y.place(below + stack.heights[index]), y.place(below)
        left, right = x.place(stack.first - 0.5), x.place(stack.last + 0.5)
        gap = min(1.0, 0.1 * (right - left))
        told = f"{x_label} {stack.name}, {name}: {stack.heights[index]:,.4g}"
        drawn.append(
            f'<rect class="fill" x="{pixel(left + gap / 2)}" y="{pixel(top)}" width="{pixel(right - left - gap)}" '
            f'height="{pixel(max(bottom - top, 0.0))}"><title>{escape(told)}</title></rect>'
        )
    return [*drawn, "</g>"]
