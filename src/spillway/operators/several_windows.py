"""Operators that can keep several windows at a time, as those of event time are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.operators.operator import Operator, Out


class SeveralWindows(Operator, ABC):
    """An operator whose state tells windows apart, if it follows a watermark; otherwise it keeps one like any other.

    ``process`` is then given tuples of any windows that are open, and ``finish`` is called once for a batch. When
    windows have ended, all state is dropped that is not ``kept_open``.
    """

    windows_at_once = True

    @abstractmethod
    def windows_held(self) -> npt.NDArray[np.int64]:
        """The windows that there is state of, each once."""

    @abstractmethod
    def end_windows(self, first: int) -> Iterator[Out]:
        """Windows before ``first`` have ended; yield what there is to say of them."""

    @abstractmethod
    def kept_open(self, first: int) -> Any:
        """The state of all windows from ``first`` on, as a copy."""

    @abstractmethod
    def reopen(self, kept: Any) -> None:
        """All state was dropped: have back what was kept open."""
