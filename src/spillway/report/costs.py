"""What a loss of memory would cost a run just now, operator by operator, as its protections and its records say."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spillway.records.figures import count
from spillway.records.run_records import RunRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one operator."""

    operator: str
    protection: str  # as it was declared; empty in records of older versions
    short: str  # a figure or a word
    note: str  # what the figure is
    urgency: float  # to compare with: the share of what is allowed; more than 1 where nothing is promised


def costs_now(records: RunRecords) -> list[Cost]:
    """One of each operator with state that has reported."""
    declared = {
        one["operator"]: one for one in records.manifest.get("promises", {}).get("operators", ()) if "operator" in one
    }
    return [_cost(records, place, declared.get(name, {})) for place, name in enumerate(records.progress.operators)]


def _cost(records: RunRecords, place: int, declared: dict[str, Any]) -> Cost:
    progress = records.progress
    newest = progress.newest(place)
    backed_up = progress.of("backup")[newest].astype(bool)
    off = np.where(backed_up, 0.0, progress.numbers("divergence")[newest])
    allowed = progress.numbers("threshold")[newest]
    metrics = ", ".join(declared.get("metrics", ()))

    def cost(short: str, note: str, urgency: float) -> Cost:
        return Cost(
            operator=progress.operators[place],
            protection=str(declared.get("protection", "")),
            short=short,
            note=note,
            urgency=urgency,
        )

    if np.any(allowed > 0):
        share = np.divide(off, allowed, out=np.zeros_like(off), where=allowed > 0)
        worst = int(share.argmax())
        what = f"at most{f', in {metrics}' if metrics else ''}; {count(float(allowed[worst]))} are allowed a shard"
        return cost(count(float(off[worst])), what, float(share[worst]))
    if declared.get("keeps_backups") is False:
        return cost("all of it", "it is never backed up", 3.0)
    if declared.get("of_job"):
        saved = progress.of("batch")[(progress.operator == place) & progress.of("backup").astype(bool)]
        again = int(progress.of("batch")[newest].max()) - int(saved.max(initial=-1))
        return cost("nothing", f"{count(again)} batches would be done once more", 0.0)
    if declared.get("own_max") == 0:
        return cost("nothing", "every batch is backed up before it counts", 0.0)
    largest = float(off.max(initial=0.0))
    if not declared and not largest:
        return cost("–", "these records do not say", 0.0)
    if not math.isfinite(largest):
        return cost("all of it", "nothing bounds it", 3.0)
    return cost(count(largest), f"of any shard{f', in {metrics}' if metrics else ''}, since its last backup", 0.5)
