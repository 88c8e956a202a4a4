"""The front door: a PySpark query that ends in an aggregation, with Spillway's state in place of Spark's.

counts = events.groupBy("user", "page").agg(F.count("*").alias("n"), F.max("ms").alias("slowest"))
query = sw.protect(counts, sw.Approximate(theta=100)).writeStream.format("console").outputMode("update").start()
"""

from spillway.spark.protecting.protect import ProtectedFrame, protect
from spillway.spark.protecting.query import ProtectedQuery
from spillway.spark.protecting.writing import ProtectedWriter

__all__ = ["ProtectedFrame", "ProtectedQuery", "ProtectedWriter", "protect"]
