"""Java is not left behind by a start that is cut short.

PySpark starts Java and waits for a file in which that says where it listens. Interrupted meanwhile, PySpark removes the
folder of that file and forgets the process, which then fails to write it and goes on to live for ever.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import java_gateway


@contextmanager
def java_ends_if_cut_short() -> Iterator[None]:
    """Around the start of a session: if that is interrupted or fails, the process it started is ended."""
    module: Any = java_gateway
    start = module.Popen
    started: list[subprocess.Popen[bytes]] = []

    def remember(*words: Any, **options: Any) -> Any:
        process = start(*words, **options)
        started.append(process)
        return process

    module.Popen = remember
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        module.Popen = start
