"""Spark's class that renames files of a checkpoint has another package in the oldest version."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from sinkproof.reference_engine.shells.spark.spark_session import checkpoint_file_manager

OF_STREAMING = "org.apache.spark.sql.execution.streaming"


def test_the_class_is_there_in_the_installed_version() -> None:
    name = checkpoint_file_manager(version("pyspark")).replace(".", "/")
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-sql_2*.jar")
    assert f"{name}.class" in ZipFile(jar).namelist()


@pytest.mark.parametrize(
    ("of_spark", "package"), [("4.0.5", ""), ("4.1.0", ".checkpointing"), ("4.3.0", ".checkpointing")]
)
def test_other_versions_have_it_elsewhere(of_spark: str, package: str) -> None:
    assert f"{OF_STREAMING}{package}.FileSystemBasedCheckpointFileManager" == checkpoint_file_manager(of_spark)
