"""Uncoordinated checkpoints (seed 003, 4.3): each job saves when it likes, with what its readers may still need.

A checkpoint waits for nobody: it becomes permanent with the log of every output from the position acknowledged so far
up to where it had written. Its readers' permanent checkpoints have read at least that far, so whoever goes back finds
what it needs in that log or sees it written again. A request, which another protocol sends, is obeyed like any due
checkpoint.
"""

from spillway.protocols.checkpoint_protocol import CheckpointProtocol, register


class _Uncoordinated(CheckpointProtocol):
    name = "uncoordinated"
    waits = False
    extensible = False


UNCOORDINATED = register(_Uncoordinated())
