"""Frames: whatever pieces the bytes come in, the same frames come out, and no length is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.receiver.wire import frames
from spillway.receiver.wire.frames import FrameParser

FRAMES = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=50)), max_size=20)


@given(sent=FRAMES, data=st.data())
def test_frames_come_out_as_they_went_in(sent: list[tuple[int, bytes]], data: st.DataObject) -> None:
    wire = b"".join(frames.frame(kind, payload) for kind, payload in sent)
    parser = FrameParser(bytes_max=51)
    came, position = [], 0
    while position < len(wire):
        step = data.draw(st.integers(1, 30))
        parser.feed(wire[position : position + step])
        position += step
        while (frame := parser.next()) is not None:
            came.append(frame)
        assert parser.waiting_bytes < 4 + 51
    assert came == sent
    assert parser.waiting_bytes == 0


@pytest.mark.parametrize("length", [0, 101, 2**31, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused_before_anything_is_kept_for_it(length: int) -> None:
    parser = FrameParser(bytes_max=100)
    parser.feed(length.to_bytes(4, "big"))
    with pytest.raises(InputError, match=str(length)):
        parser.next()


def test_items_carry_the_number_of_the_first() -> None:
    parser = FrameParser(bytes_max=100)
    parser.feed(frames.items_frame(frames.ITEMS_JSON, 7, b"{}"))
    kind, payload = parser.next() or (0, b"")
    assert (kind, frames.NUMBER.unpack_from(payload)[0], payload[8:]) == (frames.ITEMS_JSON, 7, b"{}")


@pytest.mark.parametrize("data", [b"", b"[1]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="hello"):
        frames.parse_object(data, "A hello")


@pytest.mark.parametrize("value", [-1, 2**63, 1.0, True, "1", None, [1]])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="after"):
        frames.whole({"after": value}, "after")
