"""What a job and its neighbours tell each other of checkpoints, by the mail of the stream logs between them.

A job says the same as often as it likes; what it hears it passes on once, until it begins anew. In the machines of
``protocols`` a stream has one reader, and the streams of a log are named by who reads them.
"""

from collections.abc import Iterable, Mapping

from spillway.engine.job_logs import JobLogs
from spillway.protocols.checkpoint_events import Acknowledged, Event, Request
from spillway.records.checkpointed import Messages


def stream_to(stream: str, reader: str) -> str:
    """The name of a stream to one of its readers."""
    return f"{stream} to {reader}"


class Letters:
    """The mail of one job."""

    def __init__(self, job: str, logs: JobLogs) -> None:
        self._job = job
        self._logs = logs
        self.inputs = {stream_to(view.input.stream, job): name for name, view in logs.views.items()}
        """The sources whose logs are read, by stream."""
        self.outputs = {
            stream_to(name, reader): (name, reader)
            for name, writer in logs.writers.items()
            for reader in writer.readers
        }
        """The logs that are written, and who reads them, by stream."""
        self.messages = Messages()
        self.begin_anew()

    def begin_anew(self) -> None:
        """All that is in the mail is new."""
        self._told: set[str] = set()  # requests, and apart from these those ahead of what was read
        self._heard: dict[str, tuple[int, Mapping[str, int]]] = {}  # acknowledgements
        self._extended: set[tuple[str, int, int]] = set()

    # -- what is heard ------------------------------------------------------------------------------------------------

    def met(self, read: Mapping[str, int]) -> list[Request]:
        """The requests for what will have been read; new until they were ``told``."""
        found = self._requests()
        self._told &= {text for request in found for text in (str(request), _ahead(request))}
        return [one for one in found if one.position <= read[one.stream] and str(one) not in self._told]

    def told(self, requests: Iterable[Request]) -> None:
        """The machine knows of these."""
        self._told |= {str(request) for request in requests}

    def ahead(self, read: Mapping[str, int]) -> tuple[Request, ...]:
        """New requests for more than was read."""
        found = [one for one in self._requests() if one.position > read[one.stream] and _ahead(one) not in self._told]
        self._told |= {_ahead(request) for request in found}
        return tuple(found)

    def new(self, *, extensible: bool) -> list[Event]:
        """New acknowledgements, and what readers ask to have in a checkpoint if that is ``extensible``."""
        found: list[Event] = []
        for key, (name, reader) in self.outputs.items():
            mail = self._logs.writers[name].mail
            heard = (mail.acknowledged(reader), mail.load(reader))
            if heard != self._heard.get(key, (0, {})):
                self._heard[key] = heard
                found.append(Acknowledged(stream=key, position=heard[0], load=heard[1]))
            for asked in mail.extensions(reader, stream=key) if extensible else ():
                which = (key, asked.position, asked.checkpoint)
                if which not in self._extended:
                    self._extended.add(which)
                    found.append(asked)
        return found

    def _requests(self) -> list[Request]:
        return [
            request
            for key, name in self.inputs.items()
            for request in self._logs.views[name].mail.requests(self._job, stream=key)
        ]

    # -- what is said -------------------------------------------------------------------------------------------------

    def request(self, request: Request) -> None:
        """Ask a reader for a checkpoint."""
        name, reader = self.outputs[request.stream]
        self.messages.requests += self._logs.writers[name].mail.request(reader, request)

    def acknowledge(self, stream: str, position: int, load: Mapping[str, int]) -> None:
        """Tell whoever writes a stream that this job will not ask for what is before a position."""
        self._logs.views[self.inputs[stream]].acknowledge(position, load)
        self.messages.acknowledgements += 1

    def ask_extension(self, stream: str, *, position: int, checkpoint: int) -> None:
        """Ask whoever writes a stream for the log from a position on, in a checkpoint that waits."""
        mail = self._logs.views[self.inputs[stream]].mail
        mail.ask_extension(self._job, position=position, checkpoint=checkpoint)
        self.messages.extensions += 1


def _ahead(request: Request) -> str:
    return f"ahead: {request}"
