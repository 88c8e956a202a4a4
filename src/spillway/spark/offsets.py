"""Where a query would go on, read from its checkpoint before it starts."""

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spillway.errors import RunError


def next_batch(spark: SparkSession, checkpoint: str) -> int:
    """The batch that a query with this checkpoint begins with: the one after the last that Spark has committed.

    The checkpoint may be on any file system that Spark reads, so Spark's own Java is asked.
    """
    context, java = spark.sparkContext, spark.sparkContext._jvm
    assert java is not None
    try:
        commits = java.org.apache.hadoop.fs.Path(checkpoint, "commits")
        files = commits.getFileSystem(context._jsc.hadoopConfiguration())
        names = [status.getPath().getName() for status in files.listStatus(commits)] if files.exists(commits) else []
    except Py4JJavaError as error:
        reason = str(error.java_exception).splitlines()[0]
        raise RunError(f"Checkpoint {checkpoint} cannot be read ({reason}). Name another with checkpoint=.") from error
    return 1 + max((int(name) for name in names if name.isdecimal()), default=-1)
