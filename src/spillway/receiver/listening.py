"""A receiver that listens: to TCP, for senders and the reader, and to HTTP."""

from spillway.receiver.server import Door, Receiver
from spillway.receiver.sessions import serve_tcp
from spillway.receiver.web import serve_http
from spillway.receiver.wire.frames import hello_line

_TLS_WANTED = hello_line(
    {"error": "it wants TLS: say whom to believe (--tls-ca, TLS(ca=…)), and show a certificate if it asks for one."}
)
_TCP = Door(serve=serve_tcp, without_tls=_TLS_WANTED)
_HTTP = Door(
    serve=serve_http,
    without_tls=b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_TLS_WANTED), _TLS_WANTED),
)


async def listen(receiver: Receiver) -> None:
    """Recover what its folder holds, then listen."""
    await receiver.start(tcp=_TCP, http=_HTTP)
