"""What a campaign was and what its trials gave: the rows of its records, each checked when it is made.

A fault at one target, offset, rate and outage is tried several times; each trial is one arrival order of the same
input. A golden run is one arrival order without a fault. The output is cut into sections of ``section_tuples``
consecutive ``seq``, numbered from zero; the *local* score of a section is the output score (OSF) of the tuples in it.

A trial that has rejoined its golden run gives the same output from there on, so its local scores are kept only up to
that section, together with the number of the golden run it rejoined; what follows is that run's.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from spillway.errors import InputError

SECTIONS_MAX = 1_000_000  # local scores of one run

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """One node of the graph under test, and why faults were or were not put into it."""

    name: str
    kind: str  # "source", "operator" or "sink"
    type: str  # the operator's class, or what the source or sink is
    stateful: bool = False
    state: str = ""  # what it keeps, in words
    protection: str = ""
    chosen: bool  # whether it is a target
    reason: str  # one sentence: why it was chosen or skipped
    same_as: str = ""  # if skipped: the target whose faults it shares; empty if no fault of it reaches the scored sink

    def __post_init__(self) -> None:
        if self.kind not in ("source", "operator", "sink"):
            raise InputError(f"Node {self.name!r}: its kind is source, operator or sink, not {self.kind!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """A stream from one node to another."""

    source: str
    target: str
    port: str = ""
    feedback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignGraph:
    """The graph under test, in an order in which its nodes may be read."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    def __post_init__(self) -> None:
        names = {node.name for node in self.nodes}
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in names:
                    raise InputError(f"Stream {edge.source!r} to {edge.target!r}: {end!r} is not in the graph.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguration:
    """A protection assumed on some operators; its trials are recorded with ``plan`` set to this name."""

    name: str
    operators: tuple[str, ...]
    protection: str  # in words, such as "replicated, failover in 2 s"
    outage_s: float  # the longest outage of these operators that the protection leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignDeclaration:
    """What was asked for. Two campaigns of equal declarations give equal results."""

    name: str
    sink: str  # whose output is scored
    score: str  # the output score function, in words: "sum(gain)"
    fault: str  # the fault model, in words: "outages (bursty loss of tuples)"
    targets: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # a target that is several operators at once
    offsets_seq: tuple[int, ...]  # where faults start, as tuples of the source
    outages_s: tuple[float, ...]
    rates: Mapping[str, float]  # tuples of the source per second, by name: {"average": 500, "peak": 2200}
    repetitions: int
    golden_repetitions: int
    section_tuples: int
    threshold: float = 0.03  # relative error of a section's score from which it counts as wrong
    percentile: float = 0.9  # share of wrong sections that Rlq covers
    alpha: float = 0.05  # level of significance of the tests
    seed: int = 0
    input: Mapping[str, Json] = field(default_factory=dict)  # what was read or generated
    reconfigurations: tuple[Reconfiguration, ...] = ()

    def __post_init__(self) -> None:
        for what, given in (("target", self.targets), ("offset", self.offsets_seq), ("outage", self.outages_s)):
            if not given or len(set(given)) != len(given):
                raise InputError(f"Campaign {self.name!r} needs at least one {what}, each once; got {list(given)}.")
        if not self.rates or not all(math.isfinite(rate) and rate > 0 for rate in self.rates.values()):
            raise InputError(f"Campaign {self.name!r} needs rates above zero; got {dict(self.rates)}.")
        for what, count in (
            ("repetition", self.repetitions),
            ("golden repetition", self.golden_repetitions),
            ("tuple in a section", self.section_tuples),
        ):
            if count < 1:
                raise InputError(f"Campaign {self.name!r} needs at least one {what}; got {count}.")
        for what, share in (("threshold", self.threshold), ("percentile", self.percentile), ("alpha", self.alpha)):
            if not 0 < share <= 1:
                raise InputError(f"Campaign {self.name!r}: its {what} lies above 0 and up to 1; got {share}.")

    @property
    def outage_max_s(self) -> float:
        return max(self.outages_s)

    @property
    def rate_max(self) -> str:
        """The name of the highest rate, which the metrics are told for unless another is asked for."""
        return max(self.rates, key=lambda name: self.rates[name])

    def section_s(self, rate: str) -> float:
        """How long the source takes for one section."""
        return self.section_tuples / self.rates[rate]


class AffectedKey(NamedTuple):
    """What an affected section of the output depends on."""

    plan: str  # name of the reconfiguration, or empty
    target: str
    rate: str
    offset_seq: int


class TrialKey(NamedTuple):
    """What tells one trial from all others, in the order in which results are sorted."""

    plan: str
    target: str
    rate: str
    offset_seq: int
    outage_s: float
    repetition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRow:
    """One golden run: its local scores from section 0 to the end of the output."""

    repetition: int
    seed: int
    local_osf: tuple[float, ...]

    @property
    def key(self) -> int:
        return self.repetition

    def __post_init__(self) -> None:
        _check_scores(f"Golden run {self.repetition}", self.local_osf)


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedRow:
    """The part of the output that the longest outage affects, and its score in each golden run, in their order."""

    plan: str = ""
    target: str
    rate: str
    offset_seq: int
    tuples: int  # how many tuples it has
    seq_first: int
    seq_last: int
    golden_osf: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_scores(f"Affected section of {self.target!r} at offset {self.offset_seq:,}", self.golden_osf)

    @property
    def key(self) -> AffectedKey:
        return AffectedKey(self.plan, self.target, self.rate, self.offset_seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One trial: a fault, and what it did to the output."""

    plan: str = ""
    target: str
    rate: str
    offset_s: float
    offset_seq: int  # of the source
    offset_tuples: int  # of the target
    outage_s: float  # as declared
    outage_tuples: int  # of the target, as injected: a protection assumed on it shortens it
    repetition: int
    seed: int
    golden: int  # the golden run of the same arrival order, which the trial rejoins
    osf: float  # over the affected section of its target, offset and rate
    qs: float  # osf / the mean of golden_osf of that section
    ilq: float  # of this trial alone
    rlq_sections: int  # of this trial alone; 0 if no section was wrong
    rejoined_seq: int  # where state and output were golden again; -1 if not before the end of the input
    section_first: int  # the section in which the fault started
    local_osf: tuple[float, ...]  # from that section to the one in which it rejoined
    contract_held: bool | None = (
        None  # whether the scored sink kept its contract; None if it has none, or it is unknown
    )

    def __post_init__(self) -> None:
        who = f"Trial {tuple(self.key)}"
        _check_scores(who, (self.osf, self.qs, self.ilq))
        _check_scores(who, self.local_osf)

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.plan, self.target, self.rate, self.offset_seq, self.outage_s, self.repetition)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsRow:
    """One target under one rate and plan: the four metrics, at the longest outage where one is meant."""

    plan: str = ""
    target: str
    rate: str
    outage_s: float  # of Doq, Rlq and Ilq
    qs: float  # mean over the offsets
    coq: float | None  # nothing where fewer than two outages were tried
    sigma: float | None  # Doq's; nothing where fewer than two offsets were tried
    anova_p: float | None  # Doq's; nothing where there were too few samples
    anova_accepted: bool | None  # whether one mean for all offsets is plausible: the effect does not depend on data
    rlq_sections: int
    rlq_s: float
    ilq: float
    ks_sections: int  # sections tested for a difference between trials and golden runs; 0 if there were too few runs
    ks_rejected: int  # of these, sections in which the score feels the fault

    def __post_init__(self) -> None:
        numbers = (self.qs, self.coq, self.sigma, self.anova_p, self.rlq_s, self.ilq)
        _check_scores(f"Metrics of {self.target!r}", tuple(number for number in numbers if number is not None))


GOLDEN_SCHEMA = pa.schema(
    [("repetition", pa.int32()), ("seed", pa.int64()), ("local_osf", pa.list_(pa.float64()))],
)
AFFECTED_SCHEMA = pa.schema(
    [
        ("plan", pa.string()),
        ("target", pa.string()),
        ("rate", pa.string()),
        ("offset_seq", pa.int64()),
        ("tuples", pa.int64()),
        ("seq_first", pa.int64()),
        ("seq_last", pa.int64()),
        ("golden_osf", pa.list_(pa.float64())),
    ]
)
TRIALS_SCHEMA = pa.schema(
    [
        ("plan", pa.string()),
        ("target", pa.string()),
        ("rate", pa.string()),
        ("offset_s", pa.float64()),
        ("offset_seq", pa.int64()),
        ("offset_tuples", pa.int64()),
        ("outage_s", pa.float64()),
        ("outage_tuples", pa.int64()),
        ("repetition", pa.int32()),
        ("seed", pa.int64()),
        ("golden", pa.int32()),
        ("osf", pa.float64()),
        ("qs", pa.float64()),
        ("ilq", pa.float64()),
        ("rlq_sections", pa.int64()),
        ("rejoined_seq", pa.int64()),
        ("section_first", pa.int64()),
        ("local_osf", pa.list_(pa.float64())),
        ("contract_held", pa.bool_()),
    ]
)


def declaration_json(declaration: CampaignDeclaration) -> dict[str, Any]:
    return asdict(declaration)


def declaration_from_json(found: Mapping[str, Any]) -> CampaignDeclaration:
    """The inverse of ``declaration_json``, also after a round through JSON text."""
    values = dict(found)
    for name in ("targets", "offsets_seq", "outages_s"):
        values[name] = tuple(values[name])
    values["groups"] = {name: tuple(operators) for name, operators in values["groups"].items()}
    values["reconfigurations"] = tuple(
        Reconfiguration(**{**one, "operators": tuple(one["operators"])}) for one in values["reconfigurations"]
    )
    return CampaignDeclaration(**values)


def graph_from_json(found: Mapping[str, Any]) -> CampaignGraph:
    return CampaignGraph(
        nodes=tuple(GraphNode(**node) for node in found["nodes"]),
        edges=tuple(GraphEdge(**edge) for edge in found["edges"]),
    )


def _check_scores(who: str, scores: tuple[float, ...]) -> None:
    if len(scores) > SECTIONS_MAX:
        raise InputError(f"{who}: {len(scores):,} local scores are more than {SECTIONS_MAX:,}; make sections longer.")
    bad = next((score for score in scores if not math.isfinite(score)), None)
    if bad is not None:
        raise InputError(f"{who}: every score has to be a finite number; got {bad}. Mend the score function.")
