"""A plan and what it rests on: a run directory of kind "plan".

manifest.json              format, kind, what was planned, version, machine; the newest plan, once there is one
costs.json                 what durable writes and processes cost on this machine
profile-DIGEST.json        what operators cost, put out and remember, under backups in every batch
outage-DIGEST/             a campaign: what outages of each operator do to the answer
drifts-DIGEST.json         how far the state of operators gets from a backup as time goes by
state_loss-DIGEST/         a campaign: what losing its state does
set_back-DIGEST/           a campaign: what it does to go on with state of some age
proof-DIGEST/              a campaign: the faults of a plan and its neighbours, at other places of another input

A digest is that of what was asked, so evidence that a later question also wants is found again, and other evidence lies
beside it. A campaign that was interrupted goes on.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.records.campaign_rows import CampaignGraph, graph_from_json
from spillway.records.rundir import machine

FORMAT = 1
KIND = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """One operator under a plan."""

    operator: str
    protection: str  # in words
    written: str  # as on a command line
    reason: str
    cost: float  # in cores, as prices have it
    cores: float
    memory_bytes: float
    written_bytes_per_s: float
    latency_s: float
    lost_s: float
    forgets: bool
    back_s: float
    lossless: bool
    quality_restarted: float  # what the worst of its faults leaves if it is only restarted
    quality: float  # and under the plan
    stale_s: float = 0.0  # how old its state then is at most
    like: str = ""  # the operator whose outages were tried in its place


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """One plan of the frontier."""

    cost: float
    quality: float
    protected: Mapping[str, str]  # in words, of those that are more than restarted
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRow:
    """What a campaign of its own said of a plan."""

    plan: str  # "cheaper", "chosen" or "dearer"
    cost: float
    foretold: float
    measured: float
    low: float
    high: float  # the 95 % interval
    faults: int
    stands: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRow:
    """What the model says of a plan: hours with crashes at random."""

    plan: str  # "unprotected", "cheaper", "chosen", "dearer", or "refused" for what was nearly chosen
    cost: float
    availability: float
    availability_half_width: float
    tainted_share: float  # of the output
    lost_per_hour: float  # tuples, counted where they were dropped
    delayed_per_hour: float
    holds: bool | None = None  # whether no more is tainted or lost than the wish allows; none if nothing was wished


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRows:
    """A plan as people are told of it."""

    wishes: Mapping[str, Any]
    met: bool
    quality: float
    cost: float
    cost_of_losing_nothing: float | None  # anywhere, as cheaply as that goes, the other wishes as they are
    cost_of_everything: float  # the best there is for every operator: it loses nothing, and is back first
    written_bytes_per_hour: float
    back_s: float
    next: str  # what more money would buy, in a sentence
    operators: tuple[OperatorRow, ...]
    frontier: tuple[PointRow, ...]
    measured: tuple[str, ...]
    assumed: tuple[str, ...]
    seconds: float
    judged: tuple[JudgedRow, ...] = ()
    proof: tuple[ProofRow, ...] = ()
    cost_of_one_for_all: float | None = None  # the cheapest protection that loses nothing, the same for every operator
    killed: tuple[ProofRow, ...] = ()  # what real kills said of the plan chosen

    @property
    def stands(self) -> bool | None:
        """Whether every proof there was found the plan chosen to be as wished; none if there was none."""
        said = [row.stands for row in (*self.proof, *self.killed) if row.plan == "chosen"]
        return all(said) if said else None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "stands": self.stands}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecords:
    """The directory: what the evidence is of, and the newest plan."""

    planned: str  # the graph's name
    identity: Mapping[str, str]  # what the evidence holds for
    graph: CampaignGraph
    spillway: str  # the version that measured
    figures: Mapping[str, Any]  # rates and tuples of the input
    rows: PlanRows | None = None
    machine: Mapping[str, Any] | None = None

    def write(self, path: Path) -> None:
        manifest = {
            "format": FORMAT,
            "kind": KIND,
            "planned": self.planned,
            "identity": dict(self.identity),
            "spillway": self.spillway,
            "figures": dict(self.figures),
            "graph": asdict(self.graph),
            "plan": None if self.rows is None else asdict(self.rows),
            "machine": machine(),
        }
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_whole(path / "manifest.json", (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode())
        except OSError as error:
            raise RunError(f"Plan directory {path} cannot be written ({error.strerror}). Name another.") from error

    @classmethod
    def read(cls, path: Path, manifest: Mapping[str, Any]) -> "PlanRecords":
        """The records of a directory whose manifest was read already."""
        if manifest.get("kind") != KIND:
            raise RunError(f"{path} holds a {manifest.get('kind', 'plain run')!r}, not a plan and its evidence.")
        if manifest.get("format") != FORMAT:
            raise RunError(f"{path} has a plan of format {manifest.get('format')}; this version reads {FORMAT}.")
        try:
            return cls(
                planned=str(manifest["planned"]),
                identity=dict(manifest["identity"]),
                graph=graph_from_json(manifest["graph"]),
                spillway=str(manifest["spillway"]),
                figures=dict(manifest["figures"]),
                rows=None if manifest["plan"] is None else _rows(manifest["plan"]),
                machine=dict(manifest["machine"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} is not as a plan is written: {type(error).__name__}: {error}.") from error


def this_version() -> str:
    return version("spillway")


def _rows(found: Mapping[str, Any]) -> PlanRows:
    values = {field.name: found[field.name] for field in fields(PlanRows) if field.name in found}
    kinds: dict[str, type[Any]] = {"operators": OperatorRow, "frontier": PointRow, "judged": JudgedRow}
    for name, kind in {**kinds, "proof": ProofRow, "killed": ProofRow}.items():
        values[name] = tuple(kind(**row) for row in found.get(name, ()))
    for name in ("measured", "assumed"):
        values[name] = tuple(map(str, found[name]))
    return PlanRows(**values)
