"""``spillway cluster``: a Spark cluster of several hosts on this machine, until it is interrupted."""

import argparse
import json
import signal
import sys
import threading
from types import FrameType

from spillway.cli.numbers import count
from spillway.cli.output import PROGRESS
from spillway.spark.standalone import Cluster


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=count, default=3, help="workers, on 127.0.0.2 and so on (default: 3)")
    parser.add_argument("--cores", type=count, default=1, help="of each host: tasks at once (default: 1)")
    parser.add_argument(
        "--memory",
        default="1g",
        help="of each host, for executors; with less than 1g an application must ask for less, too (default: 1g)",
    )


def main(options: argparse.Namespace) -> int:
    cluster = Cluster(options.hosts, cores=options.cores, memory=options.memory)
    asked = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        # The second time is no more urgent than the first: what was started must be ended.
        if not asked.is_set():
            asked.set()
            raise _Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        cluster.start()
        _tell(cluster, options)
        threading.Event().wait()
    except _Stopped:
        pass
    finally:
        cluster.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    if not options.json:
        PROGRESS.print("Stopped; no process and no file of it is left.")
    return 0


class _Stopped(BaseException):
    """Somebody asked for the end."""


def _tell(cluster: Cluster, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"event": "started", "master": cluster.url, "hosts": cluster.hosts}), flush=True)
        return
    what = f"{options.cores} core{'s' if options.cores > 1 else ''} and {options.memory} each"
    lines = (
        f"Spark's master is {cluster.url}",
        f"Hosts: {', '.join(cluster.hosts)}; {what}.",
        "In another terminal:",
        f"  ./run spillway run wordcount --master {cluster.url}",
        "Stop with Ctrl-C.",
    )
    print("\n".join(lines), file=sys.stdout, flush=True)
