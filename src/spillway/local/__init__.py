"""Run a graph in one process."""

from spillway.local.run import LocalRun

__all__ = ["LocalRun"]
