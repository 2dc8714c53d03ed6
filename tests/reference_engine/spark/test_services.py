"""The long job on Spark into external systems: it outlives attempts, a coordinator, and the systems themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sinkproof.campaign.spark_campaign import ON_SERVICES
from sinkproof.campaign.spark_endurance import EnduranceJob
from sinkproof.execution.spark_runner import SparkRunner, spark_runner_on
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.real_services import end_own_services

STEPS = {  # of each pair, right before and after a call of its target
    "kafka/two-phase": ["pre_commit.after", "commit.before", "commit.after"],
    "cassandra/masked": ["stage.after", "reveal.before", "reveal.after"],
}
PLAN = replace(ON_SERVICES, attempts=3, coordinators=1, workers=0, jobs=0, services=1, rows=2_000)


@pytest.fixture
def runner(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SparkRunner]:
    """With a broker or a node of its own."""
    kind = request.param.partition("/")[0]
    monkeypatch.delenv(f"SINKPROOF_{kind.upper()}", raising=False)
    with spark_runner_on(cluster, load(request.param), Scratch(name="test", path=tmp_path, shell="spark")) as made:
        yield made
        getattr(made.contract.given, "close_readers", lambda: None)()
    end_own_services(kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    "runner", ["kafka/two-phase", pytest.param("cassandra/masked", marks=pytest.mark.longer)], indirect=True
)
def test_rows_are_there_once_whatever_dies(runner: SparkRunner) -> None:
    steps = [("sink[0]", point) for point in STEPS[runner.contract.locator]]
    steps.append(("coordinator", "checkpoint.persist.after"))
    outcome = EnduranceJob(runner, PLAN, steps=steps, progress=SILENT).run()
    assert (True, (), "") == (outcome.run_result.finished, outcome.run_result.anomalies, outcome.run_result.failure)
    assert "1 x service-kill" in outcome.summary
    assert len(outcome.run_result.struck) == outcome.run_result.kills >= 4
    assert outcome.run_result.rows_committed >= PLAN.rows
