"""Extended coordinated checkpoints (seed 003, 4.4.2): a part of the log where that costs less, and around cycles.

A reader that is asked for a checkpoint may ask the sender in return to take the log from a position on into the one
that waits; then that one waits only until the reader has a permanent checkpoint of that position. Asked for are

* *the log since the reader's permanent checkpoint*, where the sender's checkpoint would otherwise wait for itself: the
  reader finds a pending one of its own among those that wait for this request. The sender then waits for nobody on
  this stream. The seed asks for the log since the pending checkpoint that was recognised by its identifier; but that
  one waits for the sender, and neither would ever be permanent. The same is done by a reader that cannot read on
  because its own output is held up: it may be the sender's checkpoint that would let it.
* *the log since the reader's newest checkpoint*, pending or not, where that has fewer bytes than a checkpoint here and
  those it brings about downstream (their sizes come back with acknowledgements): two requests in short order, as joins
  and schedules of one's own bring them, cost one checkpoint. What waits for that newest one is told on, so that a
  cycle that is closed in this way is found, too.
"""

from spillway.protocols.checkpoint_protocol import CheckpointProtocol, register


class _Extended(CheckpointProtocol):
    name = "extended"
    waits = True
    extensible = True

    def rather_extends(self, *, log_bytes: int, checkpoint_bytes: int) -> bool:
        return 0 < log_bytes < checkpoint_bytes


EXTENDED = register(_Extended())
