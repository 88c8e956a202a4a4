"""One number for a cost: cores, with prices for what is none."""

from dataclasses import dataclass

from spillway.errors import ModelError
from spillway.given import is_number
from spillway.model.terms import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a gigabyte of memory and a megabyte written in a second are worth, in cores.

    A rented machine has some 8 GB for each of its cores, and a disk that takes some 50 MB a second for each.

    >>> Prices().of(Cost(cores=0.5, memory_bytes=2e9, written_bytes_per_s=1e6))
    0.77
    """

    memory_gb: float = 0.125
    written_mb_per_s: float = 0.02

    def __post_init__(self) -> None:
        for name in ("memory_gb", "written_mb_per_s"):
            if not is_number(getattr(self, name), least=0):
                raise ModelError(f"Prices: {name} is a number of 0 or more; got {getattr(self, name)!r}.")

    def of(self, cost: Cost) -> float:
        memory, written = cost.memory_bytes / 1e9, cost.written_bytes_per_s / 1e6
        return cost.cores + self.memory_gb * memory + self.written_mb_per_s * written
