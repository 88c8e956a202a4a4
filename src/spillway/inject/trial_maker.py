"""What makes trials: a campaign's graph with its golden runs at hand, in one process.

A trial maker is built from the campaign alone and holds nothing that cannot be built again, so every process has its
own, and a trial gives the same numbers in each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.inject.campaign import Campaign
from spillway.inject.difference import Difference
from spillway.inject.faults.fault import At, Fault, SetBackFault, StateFault
from spillway.inject.full_trial import FullTrials
from spillway.inject.golden import Flow, Golden, read_all, why_full
from spillway.inject.models import fault_model
from spillway.inject.trial import Outcome, PartialTrials
from spillway.operators.arrival import Interleaving
from spillway.records.campaign_rows import AffectedKey, TrialKey
from spillway.score import compare, kept, local_scores, score
from spillway.seeds import generator

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class TrialRunner(Protocol):
    """Runs trials of one graph: by parts, or in full."""

    @property
    def seqs(self) -> Int64s: ...
    def entering(self, fault: Fault) -> Int64s: ...
    def output(self, arrival: Interleaving | None) -> Flow: ...
    def run(self, fault: Fault, arrival: Interleaving | None) -> Outcome: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What a trial gave, before it is compared with all golden runs."""

    key: TrialKey
    offset_tuples: int
    outage_tuples: int
    seed: int
    osf: float  # over the affected section
    rejoined_seq: int
    section_first: int
    local_osf: Floats
    contract_held: bool | None = None  # None if the scored sink has no contract, or it cannot be told


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenResult:
    """What a golden run gave: local scores, and the score over each affected section."""

    number: int
    seed: int
    local_osf: Floats
    affected_osf: Floats


class TrialMaker:
    """Makes the trials of one campaign."""

    def __init__(self, campaign: Campaign, *, full: bool = False) -> None:
        self.campaign = campaign
        self.graph: Graph = campaign.input()
        self.checked: CheckedGraph = self.graph.checked()
        if campaign.sink not in self.checked.exits:
            raise InputError(
                f"Campaign {campaign.name!r}: graph {self.graph.name!r} has no sink {campaign.sink!r}; it has "
                f"{', '.join(self.checked.exits)}."
            )
        self.full_because = "it was asked for" if full else why_full(self.graph)
        self.runner: TrialRunner = self._by_parts() if not self.full_because else self._from_start_to_end()
        self._locals: dict[int, Floats] = {}
        self._entering: dict[tuple[tuple[str, ...], str], Int64s] = {}

    def close(self) -> None:
        self.runner.close()

    def _by_parts(self) -> TrialRunner:
        campaign = self.campaign
        golden = Golden(
            self.graph, starts=campaign.offsets, settled_every=campaign.settled_every, set_back=self._set_back()
        )
        golden.order(None)
        if golden.repeated:
            self.full_because = f"operator {golden.repeated!r} puts out several tuples of one seq"
            return self._from_start_to_end()
        return PartialTrials(golden, sink=campaign.sink, stretch_tuples=campaign.settled_every)

    def _set_back(self) -> set[int]:
        """By how many tuples trials set back what operators keep."""
        campaign = self.campaign
        if not issubclass(fault_model(campaign.model), SetBackFault):
            return set()
        rates = tuples_and_rates(self.checked)[1] if campaign.rates is None else campaign.rates
        return {_tuples(outage_s, rate) for outage_s in campaign.outages_s for rate in rates.values()}

    def _from_start_to_end(self) -> TrialRunner:
        return FullTrials(self.graph, sink=self.campaign.sink)

    @property
    def sections(self) -> int:
        return int(self.runner.seqs[-1]) // self.campaign.section_tuples + 1

    def seed_of(self, number: int) -> int:
        """The seed of the order of arrival of a golden run and of the trials that rejoin it."""
        return int(generator(self.campaign.seed, "arrival", number).integers(2**31))

    def arrival(self, number: int) -> Interleaving:
        campaign = self.campaign
        return Interleaving(
            seed=self.seed_of(number), delay_max=campaign.delay_max, settled_every=campaign.settled_every
        )

    def fault(self, key: TrialKey, rates: Mapping[str, float]) -> Fault:
        """The fault of a trial, in tuples of what it strikes, which has its share of the source's rate."""
        campaign = self.campaign
        operators, outage_s, earlier_s = campaign.operators_of(key.target), key.outage_s, 0.0
        at: At = "input"
        for assumed in campaign.assumed:
            if assumed.name == key.plan:
                outage_s, earlier_s = assumed.lost_s, assumed.lost_s - assumed.outage_s
                if assumed.how == "replicated":
                    operators, at = assumed.operators, "output"
        model = fault_model(campaign.model)
        if issubclass(model, StateFault):
            length = _tuples(outage_s, rates[key.rate]) if issubclass(model, SetBackFault) else 1
            return campaign.fault(targets=operators, offset=self._seq_at(key.offset_seq), length=length)
        probe = campaign.fault(targets=operators, offset=0, length=1, at=at)
        seqs = self._entering_of(probe)
        share = seqs.size / self.runner.seqs.size
        length = max(1, round(outage_s * rates[key.rate] * share))
        offset = int(np.searchsorted(seqs, self._seq_at(key.offset_seq)))
        offset = max(0, offset - round(earlier_s * rates[key.rate] * share))
        return campaign.fault(targets=operators, offset=offset, length=length, at=at)

    def try_affected(self, keys: Sequence[TrialKey], rates: Mapping[str, float]) -> tuple[list[TrialResult], Int64s]:
        """The trials of the longest outage at one place, and every seq at which one of them differs from golden."""
        outcomes = [self.runner.run(self.fault(key, rates), self.arrival(key.repetition)) for key in keys]
        affected: Int64s = np.unique(np.concatenate([outcome.difference.seqs() for outcome in outcomes]))
        tried = [self._tried(key, rates, out, affected) for key, out in zip(keys, outcomes, strict=True)]
        return tried, affected

    def try_all(self, keys: Sequence[TrialKey], rates: Mapping[str, float], affected: Int64s) -> list[TrialResult]:
        """Other trials at a place whose affected section is known."""
        return [
            self._tried(key, rates, self.runner.run(self.fault(key, rates), self.arrival(key.repetition)), affected)
            for key in keys
        ]

    def golden(self, number: int, affected: Mapping[AffectedKey, Int64s]) -> GoldenResult:
        """One golden run."""
        flow = self.runner.output(self.arrival(number))
        return GoldenResult(
            number=number,
            seed=self.seed_of(number),
            local_osf=self._local(flow.batch, 0, self.sections),
            affected_osf=np.array(
                [
                    self._score(_chosen(flow, seqs), f"golden run {number} where {key.target!r} affects it")
                    for key, seqs in affected.items()
                ]
            ),
        )

    def _tried(self, key: TrialKey, rates: Mapping[str, float], outcome: Outcome, affected: Int64s) -> TrialResult:
        fault = self.fault(key, rates)
        flow = self.runner.output(self.arrival(key.repetition))
        first = self._first_struck(fault, key) // self.campaign.section_tuples
        wrong = outcome.difference.among(affected).applied(_chosen(flow, affected))
        return TrialResult(
            key=key,
            offset_tuples=fault.offset,
            outage_tuples=fault.length,
            seed=self.seed_of(key.repetition),
            osf=self._score(wrong, f"trial {tuple(key)}"),
            rejoined_seq=outcome.rejoined_seq,
            section_first=first,
            local_osf=self._faulty_local(key.repetition, flow, outcome.difference, first),
            contract_held=self._contract_held(flow, outcome.difference),
        )

    def _contract_held(self, flow: Flow, difference: Difference) -> bool | None:
        """Whether the scored sink kept its contract: all that the fault did not touch is as in the golden run."""
        contract = self.checked.exits[self.campaign.sink].contract
        if contract is None:
            return None
        golden = _chosen(flow, difference.seqs())
        faulty = difference.applied(golden)
        return kept(contract, compare(*(pa.Table.from_batches([each]) for each in (golden, faulty)))).held

    def _first_struck(self, fault: Fault, key: TrialKey) -> int:
        """The first seq at which the fault can make a difference, the same for all trials at one place."""
        offset = self._seq_at(key.offset_seq)
        if isinstance(fault, StateFault):
            # It strikes as a batch begins; where that is, a run from start to end does not say.
            return 0 if self.full_because else offset // self.campaign.settled_every * self.campaign.settled_every
        return min(offset, int(self._entering_of(fault)[fault.offset]))

    def _faulty_local(self, number: int, flow: Flow, difference: Difference, first: int) -> Floats:
        """Local scores from section ``first`` to the last that differs from the golden run's."""
        if number not in self._locals:
            self._locals[number] = self._local(flow.batch, 0, self.sections)
        width = self.campaign.section_tuples
        touched = np.unique(difference.seqs() // width)
        if not touched.size:
            return np.empty(0)
        rows = [np.arange(*flow.span(int(section) * width, int(section + 1) * width)) for section in touched]
        wrong = difference.applied(flow.batch.take(pa.array(np.concatenate(rows))))
        found = self._locals[number][first : int(touched[-1]) + 1].copy()
        found[touched - first] = self._local(wrong, first, found.size)[touched - first]
        return found

    def _local(self, batch: pa.RecordBatch, first: int, count: int) -> Floats:
        table = pa.Table.from_batches([batch])
        width = self.campaign.section_tuples
        return local_scores(self.campaign.score, table, section_tuples=width, first=first, count=count)

    def _score(self, batch: pa.RecordBatch, of: str) -> float:
        return score(self.campaign.score, pa.Table.from_batches([batch]), of=of)

    def _entering_of(self, probe: Fault) -> Int64s:
        found = self._entering.get((probe.targets, probe.at))
        if found is None:
            found = self._entering[probe.targets, probe.at] = self.runner.entering(probe)
        return found

    def _seq_at(self, offset: int) -> int:
        return int(self.runner.seqs[offset])


def tuples_and_rates(graph: CheckedGraph) -> tuple[int, dict[str, float]]:
    """How many tuples enter, and how many per second: on average, and in the busiest second.

    Rates are measured by the first source's timestamp column ``time``; without one there are none.
    """
    tuples = 0
    rates: dict[str, float] = {}
    for name, source in graph.sources.items():
        batch = read_all(graph, name)
        tuples += batch.num_rows
        if not rates and "time" in source.schema.names and pa.types.is_timestamp(source.schema.field("time").type):
            times = pc.cast(batch["time"], pa.timestamp("us"), safe=False)
            micros = np.asarray(times.cast(pa.int64()))
            span_s = max(float(micros.max() - micros.min()) / 1e6, 1e-6)
            per_second = np.bincount((micros - micros.min()) // 1_000_000)
            rates = {"average": round(micros.size / span_s, 1), "peak": float(per_second.max())}
    return tuples, rates


def _tuples(length_s: float, rate: float) -> int:
    return max(1, round(length_s * rate))


def _chosen(flow: Flow, seqs: Int64s) -> pa.RecordBatch:
    """The tuples whose seq is among the given."""
    low, high = np.searchsorted(flow.seqs, seqs), np.searchsorted(flow.seqs, seqs, side="right")
    counts = high - low
    rows = np.arange(counts.sum()) + np.repeat(low - np.cumsum(counts) + counts, counts)
    return flow.batch.take(pa.array(rows))
