"""What the protocols of checkpoints between jobs differ in, and how one is found by its name.

Each is a value in a file of its own, registered when that is imported; ``checkpointing`` has the machine that acts on
it.
"""

from collections.abc import Mapping

from spillway.errors import GraphError


class CheckpointProtocol:
    """When a pending checkpoint may become permanent, and how requests are answered."""

    name: str
    waits: bool  # whether a checkpoint waits until readers have checkpoints of what was written before it
    extensible: bool  # whether a reader may ask for a part of the log in it instead

    def rather_extends(self, *, log_bytes: int, checkpoint_bytes: int) -> bool:
        """Whether to ask for the log since the newest checkpoint: its size, and that of all a new one brings about."""
        return False


_PROTOCOLS: dict[str, CheckpointProtocol] = {}


def register(protocol: CheckpointProtocol) -> CheckpointProtocol:
    """Let a protocol be found by its name."""
    assert protocol.name not in _PROTOCOLS, protocol.name
    _PROTOCOLS[protocol.name] = protocol
    return protocol


def protocol_named(name: str) -> CheckpointProtocol:
    """The protocol of this name; raises ``GraphError`` if there is none."""
    if name not in _PROTOCOLS:
        raise GraphError(f"Wanted one of the checkpoint protocols {', '.join(_PROTOCOLS)}; got {name!r}.")
    return _PROTOCOLS[name]


def check_jobs(protocols: Mapping[str, CheckpointProtocol], streams: Mapping[str, tuple[str, str]]) -> None:
    """Refuse jobs whose checkpoints could wait for each other for ever: by job, and by stream its producer and reader.

    Around a cycle every job either waits for nobody or can be asked for a part of the log. One that waits for nobody is
    not enough: it may be held up by the log that the checkpoint of the next job is to free, and that one wait for those
    that wait for what it reads next.
    """
    after: dict[str, set[str]] = {job: set() for job in protocols}
    for producer, reader in streams.values():
        after[producer].add(reader)
    for job, protocol in protocols.items():
        if protocol.waits and not protocol.extensible and job in _reachable(job, after):
            raise GraphError(
                f"Job {job!r} is part of a cycle of jobs and its checkpoints are {protocol.name}, so they could wait "
                f"for themselves for ever. Make them extended, or uncoordinated."
            )


def _reachable(job: str, after: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [job]
    while todo:
        new = after[todo.pop()] - found
        found |= new
        todo += new
    return found
