"""Which deaths of a real driver are planned, and when their campaign may end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.stage import StageCoverage
from sinkproof.certifier.certify import Options, certify
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.foreach_batch.certifying_query import AFTER_COMMIT, BEFORE_COMMIT
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.streaming_campaign import (
    EXPERIMENTS_LEAST,
    EXPERIMENTS_OF_REAL_DEATHS,
    STREAMING_FUNCTION_PLAN,
    StreamingFunctionCampaign,
)
from sinkproof.foreach_batch.streaming_driver_supervisor import Experiment
from sinkproof.judging.oracle import Observation
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.explored_functions import FUNCTIONS

ASKS, WRITES, SKIPS = "line(a.py:1)", "line(a.py:2)", "line(a.py:3)"


def campaign(locator: str, folder: Path, *, budget_holds: bool = False) -> StreamingFunctionCampaign:
    contract = load(f"{FUNCTIONS}/{locator}")
    results = FunctionResults(contract, Scratch(name="streaming", path=folder, shell="spark"), progress=SILENT)
    laboratory: Any = SimpleNamespace(contract=contract)
    return StreamingFunctionCampaign(laboratory, results, deadline=Deadline(0), budget_holds=budget_holds)


def test_a_line_that_only_recoveries_execute_is_killed_after_the_fault_that_led_there(tmp_path: Path) -> None:
    planned = campaign("with_service.py:put", tmp_path)
    usual = Experiment(trail=[(0, point, batch) for batch in range(3) for point in (ASKS, WRITES, BEFORE_COMMIT)])
    planned.experiments = usual.experiments()
    lost = parse(f"{AFTER_COMMIT}#2=lose")
    ending = Observation(committed=[(0, 0)])
    for again in (1, 2):
        trail = [*usual.trail[:6], *[(1, ASKS, 1)] * again, (1, SKIPS, 1), (1, BEFORE_COMMIT, 1), *usual.trail[6:]]
        planned._count(Experiment(ending=ending, injected=lost.faults, trail=trail), lost)
    assert [Schedule((*lost.faults, *parse(f"{SKIPS}#1=kill-job").faults))] == planned.kills_in_recoveries()


@pytest.mark.parametrize(
    ("locator", "holds", "least"),
    [
        ("without_spark.py:replace", False, EXPERIMENTS_LEAST),
        ("with_service.py:put", False, EXPERIMENTS_OF_REAL_DEATHS),
        ("with_service.py:put", True, 0),
    ],
)
def test_where_no_death_is_simulated_more_real_ones_come_before_the_budget_counts(
    locator: str, holds: bool, least: int, tmp_path: Path
) -> None:
    planned = campaign(locator, tmp_path, budget_holds=holds)
    planned.done = least - 1
    assert holds or not planned._is_over(planned.results)
    planned.done = least
    assert planned._is_over(planned.results)


def test_a_budget_that_ends_before_three_experiments_names_the_first_stage_without_one(tmp_path: Path) -> None:
    planned = campaign("without_spark.py:replace", tmp_path, budget_holds=True)
    stages = planned.results.coverage.stages = [StageCoverage(name=stage.name) for stage in STREAMING_FUNCTION_PLAN]
    stages[0].run = 1
    assert "a kill before the commit" == planned.left_out()
    stages[1].run = stages[2].run = 1
    assert "" == planned.left_out()


def test_what_cannot_be_read_without_any_fault_convicts_no_function(tmp_path: Path) -> None:
    planned = campaign("with_service.py:put", tmp_path)
    ending = Observation(unreadable="IndexError: list index out of range")
    planned.laboratory = SimpleNamespace(  # type: ignore[assignment]
        run=lambda faults: Experiment(ending=ending), rows_left=str
    )
    assert not planned.prepare()
    assert [] == planned.results.findings
    assert ["without any fault, the committed view cannot be read: IndexError: list index out of range"] == (
        planned.results.unknowns
    )


@pytest.mark.longer
def test_a_reader_may_look_into_what_setup_keeps_in_memory(tmp_path: Path) -> None:
    options = Options(shells=("spark",), budget_seconds=1.0, canaries=False)
    (subject,) = certify([f"{FUNCTIONS}/with_service.py:put"], tmp_path, options=options)["subjects"]
    assert [] == subject["findings"]
    assert "cannot be read" not in subject["why"]
