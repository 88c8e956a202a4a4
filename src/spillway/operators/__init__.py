"""Built-in operators as kernels, the base class for one's own, and the segment that runs them."""

from spillway.operators.counting import Count
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.sketch import CountMin
from spillway.operators.stateless import Apply, Match, Select, Union, Where, Words, field

__all__ = [
    "Apply",
    "Count",
    "CountMin",
    "Match",
    "Operator",
    "Out",
    "Select",
    "Union",
    "Where",
    "Words",
    "columns",
    "field",
]
