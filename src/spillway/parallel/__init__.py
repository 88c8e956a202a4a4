"""Many tasks at once: in this process, in several, or as Spark tasks, with the same results.

`SparkTasks` is in `tasks_on_spark`, so that nobody needs Spark for the others.
"""

from spillway.parallel.opening import open_pool
from spillway.parallel.pool import Pool, ThisProcess
from spillway.parallel.processes import Processes

__all__ = ["Pool", "Processes", "ThisProcess", "open_pool"]
