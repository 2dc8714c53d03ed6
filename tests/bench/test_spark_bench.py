"""The bench on Spark measures a run that is exact, and its checkpoints from trigger to durable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from spark_bench import bench_cluster, steady


@pytest.mark.longer
def test_a_steady_run_is_exact_and_its_checkpoints_take_time() -> None:
    with bench_cluster() as cluster:
        seen = steady(cluster, place="tmpfs", form="jsonl", counted=True, seconds=0.3)
    assert "" == seen["wrong"]
    assert 0 < seen["p50"] <= seen["p95"]
    assert 0 < seen["rows_per_s"]
