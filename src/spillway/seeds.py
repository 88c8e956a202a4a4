"""Randomness, passed in: every random stream has a name, and streams of different names are independent.

`generator(seed, "trial", 7, "loss")` is the same stream on every machine and in every process, whichever
streams were used before it and however the work was split over tasks. Adding a consumer under a new name
changes no existing one, so a seed that showed a failure keeps showing it.

The names are digested to 128 bits with blake2b (Python's own `hash` differs from process to process); the
digest is the spawn key of a numpy `SeedSequence`, which mixes it with the seed. Names of different digest get
streams that are independent for every practical purpose.

>>> a = generator(1, "loss").integers(1000, size=3)
>>> b = generator(1, "delay").integers(1000, size=3)
>>> bool((a == generator(1, "loss").integers(1000, size=3)).all()), bool((a == b).all())
(True, False)

Not covered: numpy may change from one version to the next how a method such as `normal` turns bits into
numbers; the raw bits stay. The lock file pins numpy for that reason.
"""

import hashlib

import numpy as np


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """The random stream of this seed and these names, from its beginning.

    Names are compared by type and value, and by where one ends and the next begins:

    >>> streams = [generator(0, "ab"), generator(0, "a", "b"), generator(0, 1), generator(0, "1")]
    >>> len({int(stream.integers(2**62)) for stream in streams})
    4
    """
    assert seed >= 0, f"a seed is zero or more, not {seed}"
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=_digest(names))))


def _digest(names: tuple[str | int, ...]) -> tuple[int, ...]:
    """Four 32-bit words that stand for the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        kind, text = (b"s", name) if isinstance(name, str) else (b"i", str(int(name)))
        encoded = text.encode()
        digest.update(kind + len(encoded).to_bytes(8, "little") + encoded)
    return tuple(int(word) for word in np.frombuffer(digest.digest(), dtype="<u4"))
