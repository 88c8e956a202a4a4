"""No protection: one copy of everything, which starts from scratch after a crash."""

from dataclasses import dataclass
from typing import ClassVar

from spillway.model.flow import Flow
from spillway.model.layout import Layout, plain
from spillway.model.protections.technique import Technique


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProtection(Technique):
    """State is gone after a crash. What is put out while it builds up is right, only less (seed 001, 5.5.1)."""

    name: ClassVar[str] = "nothing"

    def layout(self, flow: Flow) -> Layout:
        return plain(flow)
