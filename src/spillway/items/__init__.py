"""Items from outside: a receiver that keeps them as safe as its bound asks for, and the senders that feed it."""

from spillway.items.background import BackgroundReceiver
from spillway.items.bounds import Bounds
from spillway.items.options import ReceiverOptions, find_token
from spillway.items.reader import ItemReader
from spillway.items.receiver import Receiver
from spillway.items.schema import ItemSchema
from spillway.items.sender import Sender

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
