"""Keys of several windows in one table: the number of the window and the key, as one string of bytes."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.state.keys import KeyType, string_buffers

Int64s = npt.NDArray[np.int64]

_WORD_BYTES = 8


def with_windows(windows: Int64s, keys: pa.Array) -> pa.Array:
    """What a table keeps for each key (see ``stored_keys``) in its window.

    >>> windows, keys = apart(with_windows(np.array([-1, 7]), pa.array(["a", ""])), "string")
    >>> windows.tolist(), keys.to_pylist()
    ([-1, 7], ['a', ''])
    """
    if pa.types.is_string(keys.type):
        joined = pc.binary_join_element_wise(_bytes(windows[:, None]), keys.view(pa.binary()), b"")
    else:
        joined = _bytes(np.column_stack([windows, np.asarray(keys)]))
    return joined.view(pa.string())


def apart(kept: pa.Array, stored: KeyType) -> tuple[Int64s, pa.Array]:
    """The windows and the keys of what ``with_windows`` made."""
    data, offsets = string_buffers(kept)
    data, offsets = data[offsets[0] : offsets[-1]].copy(), offsets - offsets[0]
    if stored == "int64":
        words = data.view(np.int64).reshape(-1, 2)
        return words[:, 0].copy(), pa.array(words[:, 1].copy())
    places = offsets[:-1, None] + np.arange(_WORD_BYTES)  # (keys, bytes of the window's number)
    of_keys = np.ones(data.size, np.bool_)
    of_keys[places] = False
    begins = offsets - _WORD_BYTES * np.arange(offsets.size, dtype=offsets.dtype)
    keys = pa.StringArray.from_buffers(len(kept), pa.py_buffer(begins), pa.py_buffer(data[of_keys]))
    return np.ascontiguousarray(data[places]).view(np.int64).reshape(-1), keys


def _bytes(words: Int64s) -> pa.Array:
    """Rows of 64-bit numbers, each as a string of its bytes."""
    width = _WORD_BYTES * words.shape[1]
    offsets = np.arange(0, width * (len(words) + 1), width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(words))
    return pa.Array.from_buffers(pa.binary(), len(words), [None, pa.py_buffer(offsets), data])
