"""What every command can be told, and how one ends that was interrupted."""

import argparse
import os
import signal
import threading

INTERRUPTED = 130  # as shells have it


def add_manners(parser: argparse.ArgumentParser) -> None:
    """The options that all commands have."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--verbose", action="store_true", help="let Spark talk, and show tracebacks of errors")


def leave_at_once_if_asked_again() -> None:
    """From here on an interrupt ends the process, whatever it still tidies up: later ones find and remove the rest."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
