"""Errors of calls that a library makes in native code, where the target is a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import parse
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import SIMULATED_FUNCTION_PLAN, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.foreach_batch.struck_driver import StruckDrivers
from sinkproof.foreach_batch.watched_query import NotRun
from sinkproof.reports.progress import SILENT

from .test_faults_at_targets import drivers

FILES: Final = 60  # that `replace_many` makes of each batch

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("watch_of_system_calls")]


@pytest.mark.parametrize(("function", "found"), [("forget_failures", {"O1"}), ("raise_failures", set())])
def test_an_error_that_a_thread_of_a_library_gets_is_noticed_or_loses_rows(
    function: str, found: set[str], query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    simulated = query(function, module="written_by_pool")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    campaign = SimulatedFunctionCampaign(
        simulated, results, deadline=Deadline(600), drivers=lambda: drivers(simulated, tmp_path)
    )
    campaign.carry_out([stage for stage in SIMULATED_FUNCTION_PLAN if stage.name == "an error inside one call"])
    ((stage, lost),) = [
        (stage, [each for each in results.findings if each.claimed]) for stage in results.coverage.stages
    ]
    assert [] == results.unknowns
    assert (True, "") == (stage.run > 2, stage.skipped)
    assert found == {finding.oracle for finding in lost}
    for finding in lost[:1]:
        with drivers(simulated, tmp_path) as inside:
            ending, state, _ = follow(simulated, parse(finding.schedule), inside=inside)
        assert (True, True) == (bool(state.faults), len(ending.committed) < 12)


def test_points_of_threads_are_reported_one_at_a_time(query: Callable[..., SimulatedQuery], tmp_path: Path) -> None:
    """Else what is asked at one and what is answered at another get mixed, and the driver waits for ever."""
    simulated = query("replace_many", module="written_by_pool")
    with drivers(simulated, tmp_path) as opened:
        renamed = [call for call in opened.calls() if "rename" in call.death.point]
    assert len(renamed) >= FILES


def test_errors_that_could_not_be_tried_leave_it_unknown(query: Callable[..., SimulatedQuery]) -> None:
    @contextmanager
    def none_can_be_started() -> Iterator[StruckDrivers]:
        raise NotRun("its driver does not answer")
        yield

    simulated = query("raise_failures", module="written_by_pool")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    campaign = SimulatedFunctionCampaign(simulated, results, deadline=Deadline(600), drivers=none_can_be_started)
    campaign.carry_out([stage for stage in SIMULATED_FUNCTION_PLAN if stage.name == "an error inside one call"])
    assert ["errors inside single calls were not examined: its driver does not answer"] == results.unknowns
