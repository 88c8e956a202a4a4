"""Log lines as JSON, for whoever collects them."""

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """One JSON object for each line: time, level, logger, message; of Spillway's own also what the line is of.

    Give it to a handler: ``handler.setFormatter(JsonFormatter())``. Fields of a line of ``spillway.*`` are ``kind``,
    ``graph`` and, where they say something, ``batch``, ``operator``, ``host`` and ``job``.

    >>> record = logging.LogRecord("spillway.run", logging.ERROR, "", 0, "The %s fails.", ("run",), None)
    >>> record.created = 0.0
    >>> JsonFormatter().format(record)
    '{"time": "1970-01-01T00:00:00.000+00:00", "level": "ERROR", "logger": "spillway.run", "message": "The run fails."}'
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "spillway", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
