"""What can be lost: primitives over flat memory, their divergence from the last backup, and the memory of a shard."""

from spillway.state.conformance import check_primitive
from spillway.state.primitives import HashTable, KeySet, Matrix, Metric, Number, Primitive, Vector
from spillway.state.shard import Shard

__all__ = ["HashTable", "KeySet", "Matrix", "Metric", "Number", "Primitive", "Shard", "Vector", "check_primitive"]
