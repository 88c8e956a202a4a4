"""Coordinated checkpoints (ECOC; seed 003, 4.4): pending until every reader has a checkpoint of what was written
before.

Then no checkpoint needs any of the stream log: on every stream the producer's permanent checkpoint has written no more
than the reader's has read, so a producer that goes back writes again all that its reader can ask for. Requests run down
the streams, acknowledgements back up. Around a cycle checkpoints would wait for themselves: ``check_jobs`` refuses it.
"""

from spillway.protocols.checkpoint_protocol import CheckpointProtocol, register


class _Coordinated(CheckpointProtocol):
    name = "coordinated"
    waits = True
    extensible = False


COORDINATED = register(_Coordinated())
