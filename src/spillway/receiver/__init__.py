"""Items from outside: a receiver that keeps them as safe as its bound asks for, and the senders that feed it."""

from spillway.receiver.background import BackgroundReceiver
from spillway.receiver.bounds import Bounds
from spillway.receiver.clients.reader import ItemReader
from spillway.receiver.clients.sender import Sender
from spillway.receiver.options import ReceiverOptions, find_token
from spillway.receiver.server import Receiver
from spillway.receiver.wire.schema import ItemSchema

__all__ = [
    "BackgroundReceiver",
    "Bounds",
    "ItemReader",
    "ItemSchema",
    "Receiver",
    "ReceiverOptions",
    "Sender",
    "find_token",
]
