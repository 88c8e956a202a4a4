"""What would happen: stochastic activity networks, their simulation and their exact solution.

Declare a `Net`, compose nets with `join` and `replicate`, say what to measure, then `simulate` it until every measure
is known well enough, or solve it exactly if it is small and exponential.
"""

from spillway.errors import ModelError
from spillway.san.composition import join, replicate
from spillway.san.distributions import (
    Deterministic,
    Distribution,
    Empirical,
    Erlang,
    Exponential,
    Normal,
    Uniform,
    Weibull,
)
from spillway.san.exact import long_run, occupied, solve, steady_state, transient
from spillway.san.expressions import Expression, all_of, any_of, ceil, floor, maximum, minimum, total, where
from spillway.san.fast_forward import FastForward, Flow
from spillway.san.intervals import Estimate, Precision
from spillway.san.net import Net
from spillway.san.parts import Activity, Assignment, Case, InputGate, OutputGate, Place
from spillway.san.replications import Simulation, simulate
from spillway.san.rewards import AtInstant, Impulses, Measure, OverInterval, TimeAverage
from spillway.san.statespace import StateSpace, explore

__all__ = [
    "Activity",
    "Assignment",
    "AtInstant",
    "Case",
    "Deterministic",
    "Distribution",
    "Empirical",
    "Erlang",
    "Estimate",
    "Exponential",
    "Expression",
    "FastForward",
    "Flow",
    "Impulses",
    "InputGate",
    "Measure",
    "ModelError",
    "Net",
    "Normal",
    "OutputGate",
    "OverInterval",
    "Place",
    "Precision",
    "Simulation",
    "StateSpace",
    "TimeAverage",
    "Uniform",
    "Weibull",
    "all_of",
    "any_of",
    "ceil",
    "explore",
    "floor",
    "join",
    "long_run",
    "maximum",
    "minimum",
    "occupied",
    "replicate",
    "simulate",
    "solve",
    "steady_state",
    "total",
    "transient",
    "where",
]
