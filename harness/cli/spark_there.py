"""Whether Spark can run here, asked without importing it."""

from __future__ import annotations

from importlib.util import find_spec


def why_no_spark() -> str:
    """Empty if it can; otherwise what is missing, and the one command that brings it."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed. Run: pip install 'sinkproof[spark]'"
    from sinkproof.reference_engine.shells.spark.spark_session import java_problem

    return java_problem()
