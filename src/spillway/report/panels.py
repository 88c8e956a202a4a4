"""Charts to choose among: all of them are on the page, drawn, and controls show one at a time.

Controls of one name follow each other all over the page: choosing a rate here chooses it there. Without a script, and
on paper, the panel chosen last is there to read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from spillway.errors import InputError

PANELS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One choice; with a single option it is only told, not asked."""

    name: str
    label: str
    options: tuple[str, ...]
    chosen: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.chosen < len(self.options), (self.options, self.chosen)


def panels(controls: Sequence[Control], bodies: Mapping[tuple[int, ...], str]) -> str:
    """HTML that shows the body of the options chosen; ``bodies`` has one for each combination of their indices."""
    if len(bodies) > PANELS_MAX:
        raise InputError(f"A page of {len(bodies):,} panels is more than {PANELS_MAX:,}; choose fewer things to show.")
    start = tuple(control.chosen for control in controls)
    asked = "".join(
        f'<label>{escape(control.label)} <select name="{escape(control.name)}">'
        + "".join(
            f"<option{' selected' if i == control.chosen else ''}>{escape(option)}</option>"
            for i, option in enumerate(control.options)
        )
        + "</select></label>"
        for control in controls
    )
    shown = "\n".join(
        f'<div class="panel" data-choice="{",".join(map(str, choice))}"'
        f"{'' if choice == start else ' hidden'}>{body}</div>"
        for choice, body in bodies.items()
    )
    hidden = " hidden" if all(len(control.options) == 1 for control in controls) else ""
    return f'<div class="panels"><p class="controls"{hidden}>{asked}</p>\n{shown}</div>'
