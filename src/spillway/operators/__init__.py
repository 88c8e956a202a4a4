"""Built-in operators as kernels, the base class for one's own, and the segment that runs them."""

from spillway.operators.counting import Count
from spillway.operators.hitters import LocalSketch, MergeSketches
from spillway.operators.joining import RippleJoin, SumEstimates
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.regression import GlobalModel, LocalModel
from spillway.operators.sketch import CountMin
from spillway.operators.stateless import Apply, Match, Select, Union, Where, Words, field

__all__ = [
    "Apply",
    "Count",
    "CountMin",
    "GlobalModel",
    "LocalModel",
    "LocalSketch",
    "Match",
    "MergeSketches",
    "Operator",
    "Out",
    "RippleJoin",
    "Select",
    "SumEstimates",
    "Union",
    "Where",
    "Words",
    "columns",
    "field",
]
