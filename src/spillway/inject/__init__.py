"""Break it: fault models, where to put them, and campaigns of trials against golden runs."""

from spillway.inject.campaign import AppInput, Assumed, Campaign, read_campaign
from spillway.inject.faults.duplication import Duplication
from spillway.inject.faults.fault import Fault, StateFault, TupleFault
from spillway.inject.faults.outage import Outage
from spillway.inject.faults.reordering import Reordering
from spillway.inject.faults.state_corruption import StateCorruption
from spillway.inject.faults.state_loss import StateLoss
from spillway.inject.faults.value_corruption import ValueCorruption
from spillway.inject.models import MODELS, parse_fault
from spillway.inject.placement import Choice, place
from spillway.inject.planning import Planned, plan
from spillway.inject.rewriting import with_arrival, with_fault
from spillway.inject.running import run_campaign

__all__ = [
    "MODELS",
    "AppInput",
    "Assumed",
    "Campaign",
    "Choice",
    "Duplication",
    "Fault",
    "Outage",
    "Planned",
    "Reordering",
    "StateCorruption",
    "StateFault",
    "StateLoss",
    "TupleFault",
    "ValueCorruption",
    "parse_fault",
    "place",
    "plan",
    "read_campaign",
    "run_campaign",
    "with_arrival",
    "with_fault",
]
