"""What can be lost: primitives over flat memory, their divergence from the last backup, and the memory of a shard."""

from spillway.state.conformance import check_primitive
from spillway.state.primitives import HashTable, KeySet, Matrix, Metric, Number, Primitive, Vector
from spillway.state.sample import Sample
from spillway.state.shard import Shard
from spillway.state.tally import Tally, TallyTable
from spillway.state.window import Window

__all__ = [
    "HashTable",
    "KeySet",
    "Matrix",
    "Metric",
    "Number",
    "Primitive",
    "Sample",
    "Shard",
    "Tally",
    "TallyTable",
    "Vector",
    "Window",
    "check_primitive",
]
