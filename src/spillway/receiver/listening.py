"""A receiver that listens: to TCP, for senders and the reader, and to HTTP."""

from spillway.receiver.server import Receiver
from spillway.receiver.sessions import serve_tcp
from spillway.receiver.web import serve_http


async def listen(receiver: Receiver) -> None:
    """Recover what its folder holds, then listen."""
    await receiver.start(tcp=serve_tcp, http=serve_http)
