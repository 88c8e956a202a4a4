"""What whoever drives the batches has decided about one, and every task of it is told."""

from dataclasses import dataclass

NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """About one batch of a job whose shards are saved, and go back, together (see ``engine.rewinding``)."""

    checkpoint: bool = False  # all shards save this batch
    rewinds: int = 0  # how often the job was sent back
    rewound_to: int = NONE  # the last batch that counted then
    needed: int = NONE  # the oldest batch that it may be sent back to: backups of it, and of later ones, stay


NO_ORDERS = Orders()
