"""Built-in operators as kernels, the base class for one's own, and the segment that runs them."""

from spillway.operators.arrival import Interleaving
from spillway.operators.barrier import Barrier
from spillway.operators.counting import Count
from spillway.operators.hitters import LocalSketch, MergeSketches
from spillway.operators.keyed import Keyed
from spillway.operators.latest import LatestJoin
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.regression import GlobalModel, LocalModel
from spillway.operators.ripple_join import RippleJoin, SumEstimates
from spillway.operators.sketch import CountMin
from spillway.operators.sliding import SlidingAggregate
from spillway.operators.stateless import Apply, Match, Select, Union, Where, Words, field
from spillway.operators.window_join import WindowJoin

__all__ = [
    "Apply",
    "Barrier",
    "Count",
    "CountMin",
    "GlobalModel",
    "Interleaving",
    "Keyed",
    "LatestJoin",
    "LocalModel",
    "LocalSketch",
    "Match",
    "MergeSketches",
    "Operator",
    "Out",
    "RippleJoin",
    "Select",
    "SlidingAggregate",
    "SumEstimates",
    "Union",
    "Where",
    "WindowJoin",
    "Words",
    "columns",
    "field",
]
