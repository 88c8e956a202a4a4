"""A receiver in a thread of the test's process."""

from pathlib import Path
from typing import Any

from spillway.receiver import BackgroundReceiver, Bounds, ItemSchema, ReceiverOptions

TOKEN = "a token for tests"
SCHEMA = ItemSchema.parse("id:int64,note:string?")

Served = BackgroundReceiver


def options(folder: Path, *, items: float = 1000, unacked: float = 1000, **others: Any) -> ReceiverOptions:
    bounds = {name: others.pop(name) for name in ("items_held_max", "bytes_held_max", "senders_max") if name in others}
    return ReceiverOptions(
        **{
            "schema": SCHEMA,
            "folder": folder,
            "token": TOKEN,
            "bounds": Bounds(items=items, unacked=unacked, **bounds),
            **others,
        }
    )


def serving(wanted: ReceiverOptions, said: list[str] | None = None) -> BackgroundReceiver:
    """A receiver that listens until the block ends, then stops; what it says for people goes to ``said``."""
    return BackgroundReceiver(wanted, say=(said if said is not None else []).append)
