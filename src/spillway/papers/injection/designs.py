"""Campaigns that come with Spillway: the design of seed 000, section 6.2, and the same for others."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Literal

from spillway.inject.campaign import AppInput, Assumed, Campaign
from spillway.score import Count, Sum

Size = Literal["full", "quick"]

REPLICATED = Assumed(name="replicated", operators=("TradeFilter", "Aggregator", "VWAP"), how="replicated", outage_s=2.0)
"""Seed 000, figure 12: the critical operators as a group with a replica that takes over in two seconds."""


def bargain(size: Size = "full", *, seed: int = 1) -> Campaign:
    """Bargain Discovery under outages; targets by the rules of placement, rates as measured."""
    full = size == "full"
    return Campaign(
        name="bargain" if full else "bargain-quick",
        input=AppInput(app="bargain", tuples=5_000_000 if full else 600_000, seed=seed),
        sink="Sink",
        score=Sum("gain"),
        offsets=(500_000, 1_500_000, 2_500_000, 3_500_000, 4_500_000) if full else (150_000, 300_000, 450_000),
        outages_s=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0) if full else (1.0, 4.0, 16.0),
        repetitions=5 if full else 3,
        golden_repetitions=300 if full else 30,
        seed=seed,
        assumed=(REPLICATED,),
    )


def ecg(size: Size = "full", *, seed: int = 1) -> Campaign:
    """Heartbeats under outages, at the rate of seed 003 (5.6); the score is how many are found."""
    full = size == "full"
    return Campaign(
        name="ecg" if full else "ecg-quick",
        input=AppInput(app="ecg", tuples=240_000 if full else 60_000, seed=seed),
        sink="out",
        score=Count(),
        rates={"sampling": 200.0},
        offsets=(40_000, 80_000, 120_000, 160_000, 200_000) if full else (15_000, 30_000, 45_000),
        outages_s=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0) if full else (1.0, 4.0, 16.0),
        repetitions=5 if full else 3,
        golden_repetitions=30,
        section_tuples=2_000,
        seed=seed,
    )


def wordcount(size: Size = "full", *, seed: int = 1) -> Campaign:
    """Words counted (seed 002, 4.1) under outages; the score is the sum of the counts put out.

    Nothing arrives in another order here, so that one repetition tells all.
    """
    full = size == "full"
    return Campaign(
        name="wordcount" if full else "wordcount-quick",
        input=AppInput(app="wordcount", tuples=180_000 if full else 30_000, seed=seed, tuples_per_batch=300),
        sink="out",
        score=Sum("count"),
        rates={"reading": 300.0},
        offsets=(30_000, 60_000, 90_000, 120_000, 150_000) if full else (9_000, 14_000, 20_000),
        outages_s=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0) if full else (1.0, 4.0, 16.0),
        repetitions=1,
        golden_repetitions=1,
        section_tuples=3_000,
        seed=seed,
    )


def vitals(size: Size = "full", *, seed: int = 1) -> Campaign:
    """Two sensors joined and averaged, without feedback, under outages; the score is the sum of the averages."""
    full = size == "full"
    return Campaign(
        name="vitals" if full else "vitals-quick",
        input=AppInput(app="vitals", tuples=240_000 if full else 60_000, seed=seed),
        sink="out",
        score=Sum("value"),
        rates={"sampling": 400.0},
        offsets=(40_000, 80_000, 120_000, 160_000, 200_000) if full else (15_000, 30_000, 45_000),
        outages_s=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0) if full else (1.0, 4.0, 16.0),
        repetitions=5 if full else 3,
        golden_repetitions=30,
        section_tuples=2_000,
        seed=seed,
    )


def fab(size: Size = "full", *, seed: int = 1) -> Campaign:
    """A yield model under outages, at the rate of seed 004 (5.1); the score is the sum of the prediction errors."""
    full = size == "full"
    return Campaign(
        name="fab" if full else "fab-quick",
        input=AppInput(app="fab", tuples=18_000 if full else 4_000, seed=seed),
        sink="out",
        score=Sum("error"),
        rates={"line": 6.0},
        offsets=(3_000, 6_000, 9_000, 12_000, 15_000) if full else (1_000, 2_000, 3_000),
        outages_s=(2.0, 5.0, 10.0, 30.0, 60.0) if full else (2.0, 5.0, 30.0),
        repetitions=5 if full else 3,
        golden_repetitions=30,
        section_tuples=200,
        seed=seed,
    )


DESIGNS: MappingProxyType[str, Callable[..., Campaign]] = MappingProxyType(
    {"bargain": bargain, "ecg": ecg, "vitals": vitals, "fab": fab, "wordcount": wordcount}
)
"""The campaigns by name."""
