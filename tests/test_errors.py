"""The tree of errors is the one drawn, and an error survives being handed from process to process."""

import copy
import pickle
from collections.abc import Callable

import pytest

from spillway import errors


def test_the_docstring_draws_the_whole_tree() -> None:
    def names(kind: type[Exception]) -> list[str]:
        return [kind.__name__, *(name for child in kind.__subclasses__() for name in names(child))]

    ours = [name for name in names(errors.SpillwayError) if hasattr(errors, name)]
    assert errors.__doc__ is not None
    drawn = [word for word in errors.__doc__.split(">>>")[0].split() if word.endswith("Error")]
    assert drawn == ours


@pytest.mark.parametrize("transport", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize(
    "error",
    [
        errors.GraphError("operator 'flows' has no key; give it one with key=[…]"),
        errors.BoundLostError(operator="flows", shard=3, reason="the disk is full"),
    ],
)
def test_a_copy_says_the_same(
    error: errors.SpillwayError, transport: Callable[[errors.SpillwayError], errors.SpillwayError]
) -> None:
    error.add_note("while applying batch 7")
    copied = transport(error)
    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert copied.__dict__ == error.__dict__
