"""Bargain Discovery, the application of seed 001, chapter 5, with its parameters.

                        ┌─ filter2 ── aggregate ── filter3 ──┐ trades
    source ── filter1 ──┤                                    join ── sink
                        └─ filter4 ──────────────────────────┘ quotes

Trades (one tuple in five) keep a moving average per stock up to date in the join; every quote is compared with it. The
join keeps state for trades only, and puts out for quotes only (4.5.1, 5.6.2).
"""

from spillway.model.flow import Flow, Port, Settling
from spillway.model.kinds import aggregate, functor, join, puts, sink, source
from spillway.model.protections import CheckpointState, FullReplication, HighAvailabilityGroups

RATES = (250.0, 350.0, 450.0, 550.0)  # tuples per second from outside
CRASH_RATES = (1.85e-4, 2.38e-4, 3.33e-4, 5.56e-4)  # per operator and second: every 90, 70, 50 and 30 minutes
CORRUPTION_RATES = (1.39e-4, 1.52e-4)  # every 120 and 110 minutes
RECOVERIES_S = (3.5, 15.0)

AGGREGATE_SETTLING = Settling(penalty=0.035, staleness=1.98, cap=1.0, tainted_penalty=0.005)
JOIN_SETTLING = Settling(penalty=0.03, staleness=0.41, cap=1.0, tainted_penalty=0.005)

CHECKPOINT = CheckpointState(operators=("aggregate", "join"), age_s=1.0)
"""Configuration 1."""

HIGH_AVAILABILITY = HighAvailabilityGroups(
    groups=(("source", "filter1"), ("filter2", "aggregate", "filter3")),
    replicas=2,
    failover_s=1.0,
    checkpoints=("join",),
    age_s=1.0,
)
"""Configuration 2. Which operators form the two groups is drawn in a figure that the text of the seed lacks. These
follow from what it says: the aggregate is in one and restarts from scratch; one operator is checkpointed; when an
operator outside of the groups fails there is no output at all, which is true of filter4, join and sink only."""

REPLICATION = FullReplication(replicas=2, punctuation_s=15.0)
"""Configuration 3."""


def bargain(tuples_per_s: float) -> Flow:
    """The flow at an input rate, with the costs, selectivities and state sizes of table 5.3."""
    trades = Port(name="trades", cost_s=1.27e-6, cases=puts(0.0), state_tuples=3099, settling=JOIN_SETTLING)
    quotes = Port(name="quotes", cost_s=1.27e-6, cases=puts(0.182))
    return Flow(
        name="bargain",
        operators=(
            source("source", cost_s=1.26e-6),
            functor("filter1", cost_s=1.26e-6),
            functor("filter2", cost_s=5.29e-7, selectivity=0.2),
            aggregate("aggregate", cost_s=1.32e-5, state_tuples=15_495, settling=AGGREGATE_SETTLING),
            functor("filter3", cost_s=5.47e-7),
            functor("filter4", cost_s=2.25e-7, selectivity=0.8),
            join("join", {"trades": trades, "quotes": quotes}),
            sink("sink", cost_s=7.43e-7),
        ),
        streams=(
            ("source", "out", "filter1", "in"),
            ("filter1", "out", "filter2", "in"),
            ("filter1", "out", "filter4", "in"),
            ("filter2", "out", "aggregate", "in"),
            ("aggregate", "out", "filter3", "in"),
            ("filter3", "out", "join", "trades"),
            ("filter4", "out", "join", "quotes"),
            ("join", "out", "sink", "in"),
        ),
        rates={"source": tuples_per_s},
    )
