"""Classes of Spark, loaded and verified once and kept in a file: ``python -m tests.spark_archive`` makes it.

Tests start Spark some twenty times, and each time a fifth of the work is to load the same thousands of classes. Java
can keep them in an archive, which it only uses with the class path it was made with. Without one, tests are slower and
check the same.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

# A Spark that lives for seconds spends more on optimising its own code than that saves: the first compiler is enough.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def archive() -> Path:
    """Where the archive of this Java and this Spark is, if there is one."""
    made_with = f"{os.environ.get('JAVA_HOME')} {pyspark.__version__} {Path(pyspark.__file__).parent}"
    return Path(sys.prefix) / f"spark-classes-{hashlib.blake2b(made_with.encode(), digest_size=8).hexdigest()}.jsa"


def java_options() -> str:
    """What Java is told of the archive, if there is one."""
    return f"-XX:SharedArchiveFile={archive()}" if archive().exists() else ""


def submit_arguments() -> str:
    """How tests have Spark started."""
    return f"--driver-java-options '{_SHORT_LIVED} {java_options()}' pyspark-shell"


def main() -> None:
    if archive().exists():
        return
    unfinished = archive().with_suffix(f".{os.getpid()}")
    options = f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={unfinished}"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '{options}' pyspark-shell"
    # Imported here, for whoever only asks where the archive is needs no Spark.
    from pyspark import SparkContext
    from tests.kill.driver import build

    from spillway.spark import run, session

    spark = session()
    with tempfile.TemporaryDirectory() as folder, run(build(Path(folder), "exact"), spark, backups=folder) as running:
        running.wait()
    spark.stop()
    java: subprocess.Popen[bytes] = SparkContext._gateway.proc  # type: ignore[union-attr]
    assert java.stdin is not None
    java.stdin.close()  # that is how it knows that nobody needs it any more
    java.wait()
    try:
        unfinished.replace(archive())
    finally:
        unfinished.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
