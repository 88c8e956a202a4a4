"""A made-up campaign over Bargain Discovery: small, seeded, and of the shapes that real ones have.

Nothing is run. What a fault does to the local score of a section is written by hand, target by target: silence during
the outage, too much while averages are stale, then a slow return.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from spillway.records.campaign import CampaignWriter
from spillway.records.campaign_rows import (
    AffectedRow,
    CampaignDeclaration,
    CampaignGraph,
    GoldenRow,
    GraphEdge,
    GraphNode,
    Reconfiguration,
    TrialRow,
)
from spillway.score import evaluate, local_errors, local_impact
from spillway.seeds import generator

TARGETS = ("Source", "TradeFilter", "QuoteFilter", "VWAP", "BargainIndex")
SECTIONS = 1000
SECTION_TUPLES = 5_000
REPLICATED = Reconfiguration(
    name="replicate the trade path",
    operators=("TradeFilter", "Aggregator", "VWAP"),
    protection="replicated, failover in 2 s",
    outage_s=2.0,
)

# During the outage, the share of the score that is left; after it, the share too much and how many sections it lasts.
_SHAPES = {
    "Source": (0.0, 0.5, 60.0),
    "TradeFilter": (1.4, 1.2, 60.0),
    "QuoteFilter": (0.0, 0.0, 1.0),
    "VWAP": (1.6, 0.9, 12.0),
    "BargainIndex": (0.0, 0.3, 8.0),
}


def graph() -> CampaignGraph:
    def node(name: str, type_: str, chosen: bool, reason: str, *, state: str = "", same_as: str = "") -> GraphNode:
        kind = {"Source": "source", "Sink": "sink"}.get(name, "operator")
        return GraphNode(
            name=name,
            kind=kind,
            type=type_,
            stateful=bool(state),
            state=state,
            protection="checkpoint every 30 s" if state else "",
            chosen=chosen,
            reason=reason,
            same_as=same_as,
        )

    return CampaignGraph(
        nodes=(
            node("Source", "Ticks", True, "It is a source."),
            node("TradeQuote", "Project", False, "It has one input, from a stateless operator.", same_as="Source"),
            node("TradeFilter", "Where", True, "TradeQuote feeds more than one operator."),
            node("QuoteFilter", "Where", True, "TradeQuote feeds more than one operator."),
            node(
                "Aggregator",
                "SlidingAggregate",
                False,
                "It has one input, from a stateless operator.",
                state="window of 5 trades per symbol",
                same_as="TradeFilter",
            ),
            node("VWAP", "Map", True, "Aggregator keeps state."),
            node(
                "BargainIndex",
                "LatestJoin",
                True,
                "It has more than one input.",
                state="latest average per symbol",
            ),
            node("Sink", "Parquet", False, "It is the sink that is scored.", same_as=""),
        ),
        edges=tuple(
            GraphEdge(source=source, target=target, port=port)
            for source, target, port in (
                ("Source", "TradeQuote", ""),
                ("TradeQuote", "TradeFilter", ""),
                ("TradeQuote", "QuoteFilter", ""),
                ("TradeFilter", "Aggregator", ""),
                ("Aggregator", "VWAP", ""),
                ("VWAP", "BargainIndex", "averages"),
                ("QuoteFilter", "BargainIndex", "quotes"),
                ("BargainIndex", "Sink", ""),
            )
        ),
    )


def declaration(*, small: bool = True) -> CampaignDeclaration:
    return CampaignDeclaration(
        name="bargain",
        sink="Sink",
        score="sum(gain)",
        fault="bursty loss",
        targets=TARGETS,
        offsets_seq=(500_000, 2_500_000) if small else tuple(500_000 + 1_000_000 * i for i in range(5)),
        outages_s=(1.0, 16.0) if small else (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        rates={"peak": 2200.0} if small else {"average": 500.0, "peak": 2200.0},
        repetitions=3,
        golden_repetitions=8,
        section_tuples=SECTION_TUPLES,
        seed=7,
        input={"generator": "ticks", "tuples": SECTIONS * SECTION_TUPLES},
        reconfigurations=(REPLICATED,),
    )


def golden_rows(declared: CampaignDeclaration) -> list[GoldenRow]:
    level = 100 + 20 * np.sin(np.arange(SECTIONS) / 90)
    rows = []
    for repetition in range(declared.golden_repetitions):
        noise = generator(declared.seed, "golden", repetition).normal(1, 0.002, SECTIONS)
        rows.append(GoldenRow(repetition=repetition, seed=repetition, local_osf=tuple((level * noise).tolist())))
    return rows


def affected_rows(declared: CampaignDeclaration) -> list[AffectedRow]:
    return [
        AffectedRow(
            plan=plan,
            target=target,
            rate=rate,
            offset_seq=offset,
            tuples=40_000,
            seq_first=offset,
            seq_last=offset + 80_000,
            golden_osf=tuple(1000.0 + i for i in range(declared.golden_repetitions)),
        )
        for plan in ("", REPLICATED.name)
        for target in TARGETS
        for rate in declared.rates
        for offset in declared.offsets_seq
    ]


def trial_rows(declared: CampaignDeclaration, golden: list[GoldenRow]) -> Iterator[TrialRow]:
    for plan in ("", REPLICATED.name):
        for target in TARGETS:
            for rate, rate_s in declared.rates.items():
                for offset in declared.offsets_seq:
                    for outage in declared.outages_s:
                        for repetition in range(declared.repetitions):
                            yield _trial(declared, golden, plan, target, rate, rate_s, offset, outage, repetition)


def write(path: Path, *, small: bool = True, finish: bool = True) -> CampaignWriter:
    """Write the whole campaign and let go of it."""
    declared = declaration(small=small)
    golden = golden_rows(declared)
    with CampaignWriter(path, declaration=declared, graph=graph()) as writer:
        writer.append(golden=golden, affected=affected_rows(declared))
        writer.append(trials=list(trial_rows(declared, golden)))
        if finish:
            writer.finish(evaluate(writer.records()), timing={"seconds": 12.5, "naive_seconds": 900.0})
    return writer


def _trial(
    declared: CampaignDeclaration,
    golden: list[GoldenRow],
    plan: str,
    target: str,
    rate: str,
    rate_s: float,
    offset: int,
    outage: float,
    repetition: int,
) -> TrialRow:
    left, over, lasts = _SHAPES[target]
    effective = min(outage, REPLICATED.outage_s) if plan and target in REPLICATED.operators else outage
    strength = effective / declared.outage_max_s
    # A fault at some offsets strikes harder than at others, except where it only silences the output.
    hit = 1.0 if over == 0 else 1.0 + 0.3 * ((offset // 1_000_000) % 3)
    first = offset // SECTION_TUPLES
    down = max(round(effective * rate_s / SECTION_TUPLES), 1)
    after = np.arange(round(5 * lasts * strength))
    during = np.full(down, left if left < 1 else 1 + (left - 1) * strength * hit)
    shape = np.concatenate([during, 1 + over * hit * strength * np.exp(-after / (lasts * max(strength, 0.1)))])
    rejoins = first + len(shape) <= SECTIONS
    shape = shape[: SECTIONS - first]
    own = np.array(golden[repetition].local_osf[first : first + len(shape)])
    wobble = generator(declared.seed, "trial", target, offset, repetition).normal(1, 0.002, len(shape))
    local = own * shape * wobble
    impact = local_impact(local_errors(local, own), threshold=declared.threshold, percentile=declared.percentile)
    osf = (1000.0 + repetition) * (
        1 - strength if left == 0 and over == 0 else 1 + (over * hit - (left == 0)) * strength
    )
    return TrialRow(
        plan=plan,
        target=target,
        rate=rate,
        offset_s=offset / rate_s,
        offset_seq=offset,
        offset_tuples=offset // 2,
        outage_s=outage,
        outage_tuples=round(effective * rate_s / 2),
        repetition=repetition,
        seed=repetition,
        golden=repetition,
        osf=float(osf),
        qs=float(osf) / (1000.0 + (declared.golden_repetitions - 1) / 2),
        ilq=impact.ilq,
        rlq_sections=impact.rlq,
        rejoined_seq=offset + len(shape) * SECTION_TUPLES if rejoins else -1,
        section_first=first,
        local_osf=tuple(local.tolist()),
    )
