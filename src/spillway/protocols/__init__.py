"""Who owns, who saves together, who is active: pure state machines, events in and actions out, no clock and no I/O.

``placement`` and ``fencing``: which host owns a shard. ``checkpointing``: when jobs joined by stream logs keep, save
and acknowledge checkpoints. ``failover``: which replica of a job is active.

How a runtime uses the checkpoint machine
-----------------------------------------
::

    machine = CheckpointMachine("b", protocol=protocol_named("coordinated"), inputs={"a-b": 10_000}, outputs=["b-c"])
    for action in machine.handle(Committed(batch=7, read={"a-b": 900}, written={"b-c": 450}, due=True)):
        act(action)                                          # in this order, each before the next

* Before anything runs, ``check_jobs`` refuses graphs in which checkpoints would wait for each other for ever.
* After every batch: ``Committed``, with the requests that were met in the logs up to the positions read. Between
  batches, when there is nothing to read or the log of an output is full: ``Asked``, with the requests that stand in
  the logs; each is told once as one ahead of the position read, and again when it has been read.
* A batch waits while the log of an output holds as much as it may. In a cycle of jobs one stream must not make its
  producer wait.
* ``Keep`` copies the state of all shards as of the last batch to memory, before the next batch begins; ``Save`` makes
  such a copy durable, with the ``Checkpoint`` it was given and the named parts of the log as they are now (what is
  trimmed meanwhile need not be there). ``Saved`` is told only when the write has been synced. Then older durable
  checkpoints may go.
* ``Send`` puts a request at the end of the log; it goes when the log is trimmed past its position. ``Acknowledge`` and
  ``AskExtension`` go to the other job's mailbox, which hands them over at least once, in any order. It keeps the
  highest acknowledgement of each stream, and hands it over again to a producer that restarts.
* A job that lost memory: every shard goes back to the newest durable checkpoint, the logs of its outputs hold the
  parts saved with it and go on from there, readers are told that they are others (requests in them are met from the
  start). A new machine, and ``Restarted(permanent=…)`` is its first event. A job that only lost its driver may go on
  from memory, with ``now`` and ``kept``; its readers' positions in requests begin anew as well. A job that has never
  run needs no event.
* What cannot be raises ``RefusedError``, with the story; the machine is as it was.
"""

# Each protocol registers itself when it is imported.
from spillway.protocols.checkpoint_events import (
    Acknowledge,
    Acknowledged,
    Action,
    Asked,
    AskExtension,
    Checkpoint,
    Committed,
    Event,
    ExtensionAsked,
    Forget,
    Keep,
    LogPart,
    Request,
    Restarted,
    Save,
    Saved,
    Send,
    Trim,
)
from spillway.protocols.checkpoint_protocol import CheckpointProtocol, check_jobs, protocol_named
from spillway.protocols.checkpointing import CheckpointMachine, RefusedError
from spillway.protocols.coordinated import COORDINATED
from spillway.protocols.extended import EXTENDED
from spillway.protocols.uncoordinated import UNCOORDINATED

__all__ = [
    "COORDINATED",
    "EXTENDED",
    "UNCOORDINATED",
    "Acknowledge",
    "Acknowledged",
    "Action",
    "AskExtension",
    "Asked",
    "Checkpoint",
    "CheckpointMachine",
    "CheckpointProtocol",
    "Committed",
    "Event",
    "ExtensionAsked",
    "Forget",
    "Keep",
    "LogPart",
    "RefusedError",
    "Request",
    "Restarted",
    "Save",
    "Saved",
    "Send",
    "Trim",
    "check_jobs",
    "protocol_named",
]
