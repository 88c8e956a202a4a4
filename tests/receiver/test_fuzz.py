"""Hostile input on real sockets: the receiver lives, other senders go on, and nothing acknowledged is lost."""

import contextlib
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.receiver.serving import TOKEN, options, serving
from tests.receiver.test_decoding import stream
from tests.receiver.test_server import batch, read_all

from spillway.receiver import ItemReader, Sender
from spillway.receiver.wire import frames as f
from spillway.seeds import generator

HELLO = {"version": 1, "token": TOKEN, "role": "sender", "sender": "evil", "session": "1"}


def attack(random: np.random.Generator) -> bytes:
    """Something no honest peer would send; it may start out well."""
    noise = random.bytes(int(random.integers(0, 400)))
    hello = f.hello_line(HELLO)
    arrow = bytearray(f.items_frame(f.ITEMS_ARROW, 1, stream(batch(-1000, 20))))
    arrow[int(random.integers(len(arrow)))] ^= 1 << int(random.integers(8))
    web = b"POST /items HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
    choices = [
        noise,
        noise + b"\n" + noise,
        f.hello_line({**HELLO, "token": "wrong" * int(random.integers(1, 9))}) + noise,
        f.hello_line({**HELLO, "role": "reader"}) + noise,
        f.hello_line({**HELLO, "role": "reader"}) + f.json_frame(f.ASK, {"ask": "commit", "upto": 2**40}),
        f.hello_line({**HELLO, "role": "reader"}) + f.json_frame(f.ASK, {"ask": "read", "after": -1, "upto": []}),
        f.hello_line({**HELLO, "sender": ["evil"], "acknowledged": -5}),
        f.hello_line({**HELLO, "acknowledged": 2**80}),
        b"{" * 7000 + b"\n",
        hello + noise,
        hello + struct.pack(">IB", 2**32 - 1, f.ITEMS_JSON) + noise,  # a huge length
        hello + struct.pack(">IB", 500, f.ITEMS_JSON) + noise[:300],  # half a frame
        hello + f.items_frame(f.ITEMS_JSON, 0, b'{"id":-1}'),
        hello + f.items_frame(f.ITEMS_JSON, 2**63, b'{"id":-1}'),
        hello + f.items_frame(f.ITEMS_JSON, 1, noise),
        hello + f.items_frame(f.ITEMS_ARROW, 1, noise),
        hello + f.frame(int(random.integers(256)), noise),
        hello + bytes(arrow),
        b"POST /items HTTP/1.1\r\nContent-Length: 9999\r\n\r\n" + noise,
        web + b"Content-Length: 50\r\n\r\n" + noise,
        web + b"Transfer-Encoding: chunked\r\n\r\n" + noise,
        web + b"Transfer-Encoding: chunked\r\n\r\n9\r\n" + noise,
        web + b"Expect: 100-continue\r\nContent-Length: 50\r\n\r\n" + noise,
        (web + b'Content-Length: 9\r\n\r\n{"id":-1}') * 3 + noise,
    ]
    return choices[int(random.integers(len(choices)))]


@pytest.mark.parametrize("seed", range(3))
def test_fuzzed_input_does_no_harm(tmp_path: Path, seed: int) -> None:
    random = generator(seed, "items", "fuzz")
    with serving(options(tmp_path, unacked=100, connections_max=40)) as served, contextlib.ExitStack() as left_open:
        reader = left_open.enter_context(ItemReader(served.address, TOKEN))
        sender = left_open.enter_context(Sender(served.address, TOKEN, sender_id="good"))
        ports = (served.receiver.port, served.receiver.http_port)
        hanging: list[socket.socket] = []
        for round in range(120):
            connection = socket.create_connection(("127.0.0.1", ports[int(random.integers(2))]), timeout=30)
            with contextlib.suppress(OSError):  # it may hang up at any byte
                connection.sendall(attack(random))
                if random.random() < 0.5:
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass
            hanging.append(connection)
            if len(hanging) > 30:
                hanging.pop(0).close()
            sender.send(batch(round * 10, 10))
            sender.flush(timeout_s=30)  # it is never kept waiting by the others
        for connection in hanging:
            connection.close()
        good = [id for id in read_all(reader) if 0 <= id < 1200]
        assert good == list(range(1200)), f"seed {seed}"
        status = served.status()
        assert status["lost"] == 0 and status["turned_away"] > 20
        sender.close()
    assert served.clean, f"seed {seed}"
