"""What begins in the moment of an interrupt ends with it."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from pyspark import java_gateway

from spillway.spark.launching import java_ends_if_cut_short


def test_an_interrupt_while_the_process_is_made_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []

    def interrupted(*words: Any, **options: Any) -> Any:
        made.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        os.kill(os.getpid(), signal.SIGINT)
        return made[0]

    monkeypatch.setattr(java_gateway, "Popen", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), java_ends_if_cut_short():
            java_gateway.Popen("java")  # type: ignore[attr-defined]
        assert made[0].poll() == -signal.SIGKILL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        made[0].kill()
        made[0].communicate()
    assert java_gateway.Popen is interrupted  # type: ignore[attr-defined]
