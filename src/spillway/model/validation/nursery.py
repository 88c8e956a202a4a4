"""What processes of jobs are forked from: importing this module loads all they need, compiled kernels included.

Python's fork server imports the modules it is told of and nothing else can be asked of it, which is why this one does
something when it is imported. A process that is forked from there is at work in a tenth of a second, not in seconds.
"""

import gc

import spillway.model.validation.job_process  # noqa: F401, for those that are forked
from spillway.engine.warm import warm

warm()
gc.collect()
gc.freeze()
