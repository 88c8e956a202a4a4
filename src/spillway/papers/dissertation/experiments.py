"""The experiments of seed 001, chapter 5, on Bargain Discovery: from parameters to results.

| experiment | is | varies |
|---|---|---|
| crash | figure 5.12 | protection, recovery time, input rate |
| rates | figure 5.13 | protection, crash rate |
| sdc | figure 5.14 | rate of silent corruptions, input rate; full replication |
| validation | table 5.4 | which operator crashes, once |

Each is a list of `Setting`s, simulated one after the other under one replication rule: at least 1000 runs of two hours,
until every measure is known at a level of 95 % (5.6.4). The same seed gives the same results on any number of
processes.
"""

from collections.abc import Callable, Mapping, Sequence

from spillway.model.faults import Faults
from spillway.model.simulating import Setting
from spillway.papers.dissertation.bargain import (
    CHECKPOINT,
    CORRUPTION_RATES,
    CRASH_RATES,
    HIGH_AVAILABILITY,
    RATES,
    RECOVERIES_S,
    REPLICATION,
    bargain,
)

VALIDATION_RATE = 2200.0  # tuples per second; with the next two from table 5.4 and the text around it
VALIDATION_RECOVERY_S = 16.0
VALIDATION_HORIZON_S = 360.0  # not told, but 1 - 16/360 is the availability the table has for filter4
VALIDATION_CRASH_AT_S = 60.0


def crash(rates: Sequence[float] = RATES, recoveries_s: Sequence[float] = RECOVERIES_S) -> list[Setting]:
    """Figure 5.12: both protections and recovery times over the input rate, at the lowest crash rate."""
    return [
        Setting(
            configuration=technique.name,
            flow=bargain(rate),
            technique=technique,
            faults=Faults(crash_rate=CRASH_RATES[0], recovery_s=recovery_s),
        )
        for technique in (CHECKPOINT, HIGH_AVAILABILITY)
        for recovery_s in recoveries_s
        for rate in rates
    ]


def rates(crash_rates: Sequence[float] = CRASH_RATES, tuples_per_s: float = 450.0) -> list[Setting]:
    """Figure 5.13: both protections over the crash rate."""
    return [
        Setting(
            configuration=technique.name,
            flow=bargain(tuples_per_s),
            technique=technique,
            faults=Faults(crash_rate=crash_rate, recovery_s=RECOVERIES_S[0]),
        )
        for technique in (CHECKPOINT, HIGH_AVAILABILITY)
        for crash_rate in crash_rates
    ]


def sdc(rates: Sequence[float] = RATES, corruption_rates: Sequence[float] = CORRUPTION_RATES) -> list[Setting]:
    """Figure 5.14: full replication under silent corruption, and without any for comparison, over the input rate."""
    return [
        Setting(
            configuration=REPLICATION.name,
            flow=bargain(rate),
            technique=REPLICATION,
            faults=Faults(corruption_rate=corruption_rate),
        )
        for corruption_rate in (0.0, *corruption_rates)
        for rate in rates
    ]


def validation() -> list[Setting]:
    """Table 5.4: one crash of one operator, under checkpoints."""
    flow = bargain(VALIDATION_RATE)
    return [
        Setting(
            configuration=CHECKPOINT.name,
            flow=flow,
            technique=CHECKPOINT,
            faults=Faults(crash_once={operator.name: VALIDATION_CRASH_AT_S}, recovery_s=VALIDATION_RECOVERY_S),
            horizon_s=VALIDATION_HORIZON_S,
            crashed=operator.name,
        )
        for operator in flow.operators
        if operator.name != "sink"
    ]


EXPERIMENTS: Mapping[str, Callable[[], list[Setting]]] = {
    "crash": crash,
    "rates": rates,
    "sdc": sdc,
    "validation": validation,
}
