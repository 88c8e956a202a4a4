"""Run a graph in one process."""

from spillway.local.jobs import LocalJobs
from spillway.local.run import LocalRun

__all__ = ["LocalJobs", "LocalRun"]
