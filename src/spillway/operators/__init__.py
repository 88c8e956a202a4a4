"""Built-in operators. The base class for one's own is ``spillway.Operator``.

What single experiments of the papers need is in modules of its own: ``hitters`` (heavy hitters merged from local
sketches), ``ripple_join`` (a join's size from samples), ``regression`` (online learning with feedback).
"""

from spillway.operators import hitters, regression, ripple_join
from spillway.operators.barrier import Barrier
from spillway.operators.counting import Count
from spillway.operators.keyed import Keyed
from spillway.operators.latest import LatestJoin
from spillway.operators.least_squares import LeastSquares
from spillway.operators.shared_join import SharedWindowJoin
from spillway.operators.signals import Signal, SignalFilter
from spillway.operators.sketch import CountMin
from spillway.operators.sliding import SlidingAggregate
from spillway.operators.stateless import Apply, Match, Select, Union, Where, Words
from spillway.operators.window_join import WindowJoin

__all__ = [
    "Apply",
    "Barrier",
    "Count",
    "CountMin",
    "Keyed",
    "LatestJoin",
    "LeastSquares",
    "Match",
    "Select",
    "SharedWindowJoin",
    "Signal",
    "SignalFilter",
    "SlidingAggregate",
    "Union",
    "Where",
    "WindowJoin",
    "Words",
    "hitters",
    "regression",
    "ripple_join",
]
