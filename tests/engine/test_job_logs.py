"""The logs of a job, told of batches by whoever runs them and by whoever looks after it."""

import threading
from pathlib import Path

from tests.local.test_jobs import line

from spillway.engine.job_logs import JobLogs
from spillway.engine.log_files import LogPlace

BATCHES = 400


def test_two_threads_may_tell_what_is_committed(tmp_path: Path) -> None:
    logs = JobLogs(line().divided()["middle"].checked(), place=LogPlace(root=tmp_path, run="1"))
    raised: list[Exception] = []

    def tell() -> None:
        try:
            for batch in range(BATCHES):
                logs.committed(batch)
        except OSError as error:
            raised.append(error)

    threads = [threading.Thread(target=tell) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised
    (view,) = logs.views.values()
    assert view.mail.acknowledged("middle") == BATCHES
