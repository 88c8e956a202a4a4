"""What is known of a graph, in one directory; what is missing is measured on the way.

Three things are measured. A *profile*: the graph is run in this process, with batches as long as they will be in use
and a backup in each, at the highest rate of its input. *Costs* of writes and processes on this machine. And what faults
do, by two campaigns of ``inject`` at that rate: outages of every operator, of all the lengths that some protection
leaves, and the loss of what operators keep. Operators that fail alike (``inject.placement``) share trials.

Evidence holds for one graph, input, score and version of Spillway, and says so: evidence of another is refused.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from spillway.errors import InputError, RunError
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.graph.protections import Exact
from spillway.inject.campaign import AppInput, Campaign
from spillway.inject.faults.outage import Outage
from spillway.inject.faults.state_loss import StateLoss
from spillway.inject.faults.state_set_back import StateSetBack
from spillway.inject.models import fault_model
from spillway.inject.placement import depends, place
from spillway.inject.planning import plan as made_definite
from spillway.inject.running import Observer, run_campaign
from spillway.inject.trial_maker import tuples_and_rates
from spillway.model.measuring import measure_profile
from spillway.model.profile import Profile, load_profile
from spillway.model.terms import Drift, Measured
from spillway.operators.operator import Operator
from spillway.parallel.pool import Pool
from spillway.plan.drifting import AGES_S, STRETCHES, keep_drifts, kept_drifts, measure_drifts, threshold_of_one
from spillway.plan.kept_machine import costs_file, of_machine
from spillway.plan.machine_costs import MachineCosts, kept_costs
from spillway.records.campaign import CampaignRecords, read_manifest
from spillway.records.campaign_rows import CampaignGraph, GraphEdge, GraphNode
from spillway.records.plan import PlanRecords, this_version
from spillway.records.rundir import machine
from spillway.score.osf import name as score_name

_MACHINE = ("cores", "memory_bytes")  # what tells machines apart whose costs differ

PROFILED_BATCHES = 60
"""Batches of the profile, where its input is made by an application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What one trial did: the sum of squared relative errors (Ilq), and for how long sections were wrong (Rlq)."""

    ilq: float
    wrong_s: float


Impacts = Mapping[tuple[str, float], tuple[Impact, ...]]
"""Impacts of trials by target and outage, in the order of offset and repetition."""


class Evidence:
    """The evidence of one graph under one score, in a directory.

    ``campaign`` says of what: input, sink, score, offsets, rates, sections. ``told`` is called with a sentence before
    anything that takes long, and ``observe`` with the progress of campaigns.
    """

    def __init__(
        self,
        directory: Path,
        campaign: Campaign,
        *,
        pool: Pool,
        told: Callable[[str], None] = lambda sentence: None,
        observe: Observer = lambda progress: None,
    ) -> None:
        self.directory = directory
        self.campaign = campaign
        self._pool = pool
        self._told = told
        self._observe = observe
        self.graph: Graph = campaign.input()
        self.checked: CheckedGraph = self.graph.checked()
        if campaign.sink not in self.checked.exits:
            raise InputError(
                f"Graph {self.graph.name!r} has no sink {campaign.sink!r} to be scored; it has "
                f"{', '.join(self.checked.exits)}."
            )
        self.reaching = depends(self.checked, campaign.sink)
        self.records = self._opened()

    @property
    def rate(self) -> tuple[str, float]:
        """The highest rate of the input, in tuples per second, by its name."""
        rates: Mapping[str, float] = self.records.figures["rates"]
        return max(rates.items(), key=lambda each: each[1])

    @cached_property
    def stand_ins(self) -> Mapping[str, str]:
        """By operator: the one whose outages are tried in its place, itself mostly; empty if no fault of it shows."""
        choices = place(self.checked, sink=self.campaign.sink, model=Outage.model)
        return {
            choice.operator: choice.operator if choice.chosen else choice.same_as
            for choice in choices
            if choice.operator in self.checked.operators
        }

    @cached_property
    def costs(self) -> MachineCosts:
        return kept_costs(self.directory / "costs.json", known=lambda: of_machine(costs_file()))

    def measured(self, *, batch_s: float) -> dict[str, Measured]:
        """Every operator in use: what it costs, what reaches it, what it keeps."""
        profile, rate, drifts = self.profile(batch_s=batch_s), self.rate[1], self.drifts(batch_s=batch_s)
        arriving = _arriving(self.checked, profile, rate)
        found = {}
        for name in self.checked.order:
            own = profile.operators[name]
            ports = [(arriving[name, port], each) for port, each in own.ports.items()]
            per_s = sum(tuples for tuples, _ in ports)
            found[name] = Measured(
                operator=name,
                stateful=self.checked.operators[name].stateful,
                cores=sum(tuples * each.cost_s for tuples, each in ports),
                tuples_per_s=per_s,
                bytes_per_s=sum(tuples * each.tuple_bytes for tuples, each in ports),
                state_bytes=float(own.state_bytes),
                changed_bytes_per_s=own.backup_bytes * per_s,
                shards=self.checked.shards_of(name),
                drifts=drifts.get(name, ()),
                threshold=threshold_of_one(self.checked, name) if name in drifts else 0.0,
            )
        return found

    def profile(self, *, batch_s: float) -> Profile:
        """The profile of the graph with a backup in every batch, each as long as said at the highest rate."""
        per_batch = self._per_batch(batch_s)
        path = self.directory / f"profile-{_digest({'per_batch': per_batch})}.json"
        if not path.exists():
            self._told(f"Measuring what the operators of {self.graph.name} cost.")
            source = self._short_input(batches=PROFILED_BATCHES, per_batch=per_batch)
            with tempfile.TemporaryDirectory(prefix="spillway-plan-") as backups:
                found = measure_profile(source().protected(Exact()), backups=backups, tuples_per_s=self.rate[1])
            found.save(path)
        return load_profile(path)

    def drifts(self, *, batch_s: float) -> Mapping[str, tuple[Drift, ...]]:
        """How far the state of operators gets from a backup, as time goes by, at the highest rate."""
        per_batch = self._per_batch(batch_s)
        path = self.directory / f"drifts-{_digest({'per_batch': per_batch})}.json"
        if not path.exists():
            self._told(f"Measuring how fast the state of {self.graph.name} changes.")
            batches = 1 + STRETCHES * math.ceil(max(AGES_S) / batch_s + 1)
            source, tuples = self._short_input(batches=batches, per_batch=per_batch), self.records.figures["tuples"]
            if isinstance(source, AppInput) and source.tuples:
                tuples = source.tuples
            keep_drifts(path, measure_drifts(source(), ages_s=AGES_S, duration_s=tuples / self.rate[1]))
        return kept_drifts(path)

    def _per_batch(self, batch_s: float) -> int:
        return max(1, round(self.rate[1] * batch_s))

    def _short_input(self, *, batches: int, per_batch: int) -> Callable[[], Graph]:
        """The input, cut short and into batches of so many tuples if an application makes it."""
        source = self.campaign.input
        if not isinstance(source, AppInput):
            return source
        most = min(source.tuples, batches * per_batch) if source.tuples else 0
        return replace(source, tuples=most, tuples_per_batch=per_batch)

    def outages(self, lengths_s: Iterable[float], operators: Iterable[str]) -> Impacts:
        """What outages of these lengths do to operators, tried at one of those that fail alike."""
        targets = tuple(dict.fromkeys(self.stand_ins[name] for name in operators if self.stand_ins[name]))
        return self._tried(Outage.model, targets, tuple(sorted(set(lengths_s))))

    def losses_of_state(self, operators: Iterable[str]) -> Impacts:
        """What it does to forget everything kept, under a length of 0."""
        operators = tuple(operators)
        by_key = tuple(name for name in operators if StateLoss.can_strike(self.checked.operators[name]))
        others = tuple(name for name in operators if name not in by_key)
        everything_s = math.ceil(self.records.figures["tuples"] / self.rate[1])  # older than that no state can be
        found = {
            **self._tried(StateLoss.model, by_key, (1.0,)),
            **self._tried(StateSetBack.model, others, (float(everything_s),)),
        }
        return {(name, 0.0): impacts for (name, _), impacts in found.items()}

    def set_back(self, lengths_s: Iterable[float], operators: Iterable[str]) -> Impacts:
        """What it does if operators go on with what they kept so long ago, by these lengths."""
        return self._tried(StateSetBack.model, tuple(operators), tuple(sorted(set(lengths_s))))

    def of_model(self, model: str, targets: tuple[str, ...], outages_s: tuple[float, ...]) -> Campaign:
        """The campaign of these faults."""
        name, rate = self.rate
        return replace(
            self.campaign,
            name=f"{self.campaign.name}-{model}",
            model=model,
            model_options={},
            targets=targets,
            groups={},
            outages_s=outages_s,
            rates={name: rate},
            golden_repetitions=self.campaign.repetitions,
            assumed=(),
            local_only=True,
        )

    def campaign_of(self, model: str, targets: tuple[str, ...], outages_s: tuple[float, ...]) -> CampaignRecords:
        """The records of a campaign; it is run, or goes on, unless it has finished."""
        campaign = self.of_model(model, targets, outages_s)
        path = self.directory / f"{model}-{_digest(_asked(campaign))}"
        if (path / "result.json").exists():
            return CampaignRecords.read(path)
        self._told(f"Trying {fault_model(model).in_words} at {', '.join(targets)}.")
        return run_campaign(made_definite(campaign), path, pool=self._pool, observe=self._observe)

    def _tried(self, model: str, targets: tuple[str, ...], outages_s: tuple[float, ...]) -> Impacts:
        if not targets or not outages_s:
            return {}
        return impacts(self.campaign_of(model, targets, outages_s))

    def _opened(self) -> PlanRecords:
        """The records of the directory, new ones if it is empty; those of something else are refused."""
        identity = identity_of(self.checked, self.campaign)
        if not (self.directory / "manifest.json").exists():
            tuples, measured = tuples_and_rates(self.checked)
            rates = dict(self.campaign.rates) if self.campaign.rates is not None else measured
            if not rates:
                raise InputError(
                    f"Graph {self.graph.name!r}: its source has no timestamp column 'time' to measure rates by. Name "
                    f"rates in a campaign file, in tuples per second."
                )
            records = PlanRecords(
                planned=self.graph.name,
                identity=identity,
                graph=_drawn(self.checked),
                spillway=this_version(),
                figures={"tuples": tuples, "rates": rates},
            )
            records.write(self.directory)
            return records
        records = PlanRecords.read(self.directory, read_manifest(self.directory))
        if records.planned != self.graph.name:
            raise RunError(
                f"{self.directory} has evidence of graph {records.planned!r}, not of {self.graph.name!r}. Name another "
                f"directory, and what is missing is measured."
            )
        if records.spillway != this_version():
            raise RunError(
                f"{self.directory} has evidence that Spillway {records.spillway} measured, and this is "
                f"{this_version()}: it is too old. Name another directory, and it is measured again."
            )
        there, here = ({name: of.get(name) for name in _MACHINE} for of in (records.machine or {}, machine()))
        if there != here:
            raise RunError(
                f"{self.directory} has evidence that was measured on another machine: {there['cores']} cores and "
                f"{there['memory_bytes']} bytes of memory there, {here['cores']} and {here['memory_bytes']} here. Name "
                f"another directory, and it is measured again."
            )
        for what, wanted in identity.items():
            if records.identity.get(what) != wanted:
                raise RunError(
                    f"{self.directory} has evidence of graph {records.planned!r} with another {what}: "
                    f"{_short(records.identity.get(what))} there, {_short(wanted)} here. Name another directory, and "
                    f"what is missing is measured."
                )
        return records

    def keep(self, records: PlanRecords) -> None:
        """Write the newest plan beside its evidence."""
        self.records = records
        records.write(self.directory)


def identity_of(graph: CheckedGraph, campaign: Campaign) -> dict[str, str]:
    """What evidence holds for, in words by what it is."""
    operators = [
        f"{name}: {type(operator).__name__}"
        + (f" keeping {operator.describe_state()}" if isinstance(operator, Operator) and operator.stateful else "")
        for name, operator in graph.operators.items()
    ]
    streams = [f"{edge.stream} to {edge.node}.{edge.port}" for edge in graph.edges if not edge.marks]
    source = campaign.input
    described: Any = source.describe() if isinstance(source, AppInput) else getattr(source, "__qualname__", "")
    return {
        "graph": "; ".join([*operators, *streams]),
        "input": json.dumps(described, sort_keys=True),
        "score": f"{score_name(campaign.score)} of {campaign.sink}, sections of {campaign.section_tuples}",
        "design": json.dumps([list(campaign.offsets), campaign.repetitions, campaign.seed]),
    }


def impacts(records: CampaignRecords) -> Impacts:
    """The impact of every trial of a campaign, by target and outage."""
    found: dict[tuple[str, float], list[Impact]] = {}
    for row in records.trials:  # sorted by offset, outage, repetition
        impact = Impact(ilq=row.ilq, wrong_s=row.rlq_sections * records.declaration.section_s(row.rate))
        found.setdefault((row.target, row.outage_s), []).append(impact)
    return {key: tuple(values) for key, values in found.items()}


def _arriving(graph: CheckedGraph, profile: Profile, rate: float) -> dict[tuple[str, str], float]:
    """Tuples per second that reach each input port, by the selectivities of the profile."""
    total = sum(source.tuples_per_s for source in profile.sources.values()) or 1.0
    leaving = {
        (name, "out"): rate * source.tuples_per_s / total for name, source in profile.sources.items()
    }  # by node and output port
    found: dict[tuple[str, str], float] = {}
    for name in graph.order:
        for edge in graph.into(name):
            if not edge.feedback and not edge.marks:
                put = leaving.get((edge.stream.node, edge.stream.port), 0.0)
                found[name, edge.port] = found.get((name, edge.port), 0.0) + put
        ports = profile.operators[name].ports
        for port in ports:
            found.setdefault((name, port), 0.0)
        for output in graph.operators[name].outputs:
            leaving[name, output] = sum(
                found[name, port] * each.selectivity.get(output, 0.0) for port, each in ports.items()
            )
    return found


def _drawn(graph: CheckedGraph) -> CampaignGraph:
    nodes = [
        GraphNode(name=name, kind="source", type="source", chosen=False, reason="A source is read again.")
        for name in graph.sources
    ]
    for name in graph.order:
        operator = graph.operators[name]
        state = operator.describe_state() if isinstance(operator, Operator) and operator.stateful else ""
        kind = type(operator).__name__
        node = GraphNode(
            name=name, kind="operator", type=kind, stateful=operator.stateful, state=state, chosen=True, reason=""
        )
        nodes.append(node)
    nodes += [
        GraphNode(name=name, kind="sink", type=type(leaving.sink).__name__, chosen=False, reason="")
        for name, leaving in graph.exits.items()
    ]
    edges = tuple(
        GraphEdge(source=edge.stream.node, target=edge.node, port=edge.port, feedback=edge.feedback)
        for edge in graph.edges
        if not edge.marks
    )
    return CampaignGraph(nodes=tuple(nodes), edges=edges)


def _asked(campaign: Campaign) -> dict[str, Any]:
    return {
        "model": campaign.model,
        "targets": campaign.targets,
        "outages_s": campaign.outages_s,
        "offsets": campaign.offsets,
        "rates": dict(campaign.rates or {}),
        "repetitions": campaign.repetitions,
        "seed": campaign.seed,
        "input": campaign.input.describe() if isinstance(campaign.input, AppInput) else "",
    }


def _digest(asked: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=5).hexdigest()


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 160 else f"{text[:159]}…"
