"""The life of one checkpoint of a job: every state, what leads on from it, and nothing else.

    committed --kept--> pending --enough--> saving --saved--> permanent
                           |
                           +--replaced, passed--> gone

*Pending*: its copy is in the job's memory, it is lost with that memory, and nobody counts on it. *Saving*: readers
have acknowledged enough, and the durable write is under way. *Permanent*: the write is finished; from now on the job
never goes back further, so its inputs are acknowledged; it lasts until a newer one is permanent. What is not in
``TRANSITIONS`` is refused and changes nothing.
"""

from dataclasses import dataclass
from enum import StrEnum

from spillway.protocols.checkpoint_events import Checkpoint


class State(StrEnum):
    """Where a checkpoint is in its life."""

    COMMITTED = "committed"
    PENDING = "pending"
    SAVING = "saving"
    PERMANENT = "permanent"
    GONE = "gone"


class Cause(StrEnum):
    """What moves a checkpoint on."""

    KEPT = "kept"
    ENOUGH = "enough"
    SAVED = "saved"
    REPLACED = "replaced"
    PASSED = "passed"


MEANING = {
    Cause.KEPT: "a checkpoint is due, or was requested, at the batch's end",
    Cause.ENOUGH: "every output is acknowledged as far as the protocol asks for",
    Cause.SAVED: "the durable write is finished",
    Cause.REPLACED: "as many are pending as may be, and this was the newest",
    Cause.PASSED: "a newer one is being saved",
}

TRANSITIONS: dict[tuple[State, Cause], State] = {
    (State.COMMITTED, Cause.KEPT): State.PENDING,
    (State.PENDING, Cause.ENOUGH): State.SAVING,
    (State.PENDING, Cause.REPLACED): State.GONE,
    (State.PENDING, Cause.PASSED): State.GONE,
    (State.SAVING, Cause.SAVED): State.PERMANENT,
}


@dataclass(slots=True)
class Pending:
    """A checkpoint that is not permanent yet."""

    checkpoint: Checkpoint
    state: State
    needs: dict[str, int]  # by output: up to where its reader must have acknowledged
    waiting: dict[str, int]  # by job: its newest checkpoint that waits for this one


def table() -> str:
    """The transitions as documents show them.

    >>> print(table().splitlines()[2])
    | committed | kept: a checkpoint is due, or was requested, at the batch's end | pending |
    """
    rows = [f"| {state} | {cause}: {MEANING[cause]} | {then} |" for (state, cause), then in TRANSITIONS.items()]
    return "\n".join(["| a checkpoint that is | when | becomes |", "|---|---|---|", *rows])
