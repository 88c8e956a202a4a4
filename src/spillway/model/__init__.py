"""Stream applications as nets: operators, streams, tainted tuples, faults and protections (seed 001, chapter 5).

>>> from spillway.san import simulate
>>> from spillway.san.intervals import Precision
>>> from spillway.papers.dissertation.bargain import CHECKPOINT, bargain
>>> stream = build(bargain(tuples_per_s=450), CHECKPOINT, Faults(crash_rate=1.85e-4, recovery_s=3.5))
>>> runs = Precision(relative=0.5, replications_min=20, replications_max=20)
>>> found = simulate(stream.net, stream.measures(horizon_s=7200), seed=1, precision=runs)
>>> 0.97 < found["availability"].mean < 0.99
True
"""

from spillway.model.faults import Faults
from spillway.model.flow import Flow, FlowOperator, Port, Settling
from spillway.model.from_graph import flow_of, net_of
from spillway.model.profile import Profile, load_profile
from spillway.model.protections import (
    Around,
    BoundedState,
    CheckpointState,
    ExactState,
    FullReplication,
    HighAvailabilityGroups,
    KeptItems,
    NoProtection,
    RewindingJobs,
    Technique,
    technique_of,
)
from spillway.model.stream_net import StreamNet, build

__all__ = [
    "Around",
    "BoundedState",
    "CheckpointState",
    "ExactState",
    "Faults",
    "Flow",
    "FlowOperator",
    "FullReplication",
    "HighAvailabilityGroups",
    "KeptItems",
    "NoProtection",
    "Port",
    "Profile",
    "RewindingJobs",
    "Settling",
    "StreamNet",
    "Technique",
    "build",
    "flow_of",
    "load_profile",
    "net_of",
    "technique_of",
]
