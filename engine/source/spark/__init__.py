"""CONFIDENTIAL. Spark as the engine that reads, encodes and counts a source which outgrows one machine.

Takes what a spec says of a source, or a Spark DataFrame. Gives the same codes, tokens and cells as DuckDB does, for the
executors run the same code on Arrow batches. Only cells, digests and lists of values come to the driver. May import
the engine's root, `engine.spec`, and `engine.source`. Its face needs neither pyspark nor pyarrow; what does
(`encoding`, `rows`, `frames`, `tasks`) is imported where Spark is asked for.
"""

from __future__ import annotations

from engine.source.spark.session import check_packages, is_spark_frame

__all__ = ["check_packages", "is_spark_frame"]
