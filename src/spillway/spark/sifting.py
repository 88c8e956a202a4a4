"""What Spark's Java process writes to standard error, without what tells nobody anything.

That is what Java says of itself when it starts, and the tracebacks of Spark's own Python processes that find their
connection closed: a query that is stopped leaves them so. They end as they should; only their last words are many.
"""

import re

_CHATTER = re.compile(r"WARNING: (Using incubator modules|package jdk\.incubator)|Using Spark's default log4j profile")
_BEGIN = "Traceback (most recent call last):"
_BETWEEN = re.compile(
    r"\s*$|During handling of the above exception, another exception occurred:|"
    r"The above exception was the direct cause of the following exception:"
)
_OF_SPARK = re.compile(
    r'File "[^"]*[/\\]pyspark[^"]*[/\\](python_streaming_source_runner|worker|worker_util|daemon)\.py"'
)
_CLOSED = re.compile(r"(EOFError|BrokenPipeError|ConnectionResetError)\b")
_LINES_MAX = 1_000  # of a traceback


class Sifter:
    """Takes lines as they come and gives back those that say something.

    >>> sifter = Sifter()
    >>> sifter.sifted(["WARNING: Using incubator modules: jdk.incubator.vector", "no space left"])
    ['no space left']
    """

    def __init__(self) -> None:
        self._held: list[str] = []  # of a traceback that has begun
        self._dropped = False  # the last one was, and what joins it to the next goes with it

    def sifted(self, lines: list[str]) -> list[str]:
        """What there is to say after these lines."""
        told: list[str] = []
        for line in lines:
            told += self._after(line)
        return told

    def rest(self) -> list[str]:
        """What is left when no more lines come."""
        held, self._held = self._held, []
        return held

    def _after(self, line: str) -> list[str]:
        if self._held:
            self._held.append(line)
            within = line.startswith((" ", "\t")) and len(self._held) < _LINES_MAX
            if within:
                return []
            held = self.rest()
            self._dropped = bool(_CLOSED.match(line)) and any(map(_OF_SPARK.search, held))
            return [] if self._dropped else held
        if line.strip() == _BEGIN:
            self._held = [line]
            return []
        if self._dropped and _BETWEEN.match(line):
            return []
        self._dropped = False
        return [] if _CHATTER.match(line) else [line]
