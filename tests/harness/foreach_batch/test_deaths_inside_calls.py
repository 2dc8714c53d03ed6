"""What deaths inside one line of a foreachBatch function leave: its calls, and those of programs that it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.foreach_batch import deaths_inside_calls
from sinkproof.foreach_batch.certify_function import simulated_query
from sinkproof.foreach_batch.certifying_query import SMALLER_CLUSTER_JOB
from sinkproof.foreach_batch.faults_at_targets import deaths_between_more, deaths_between_parts, strike
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import SIMULATED_FUNCTION_PLAN, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.foreach_batch.watched_query import NotRun, WatchedQuery, watched_query
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import LARGE_BATCHES_JOB

from ...support.explored_functions import FUNCTIONS

ENTRY = Path(__file__).parents[2] / "support" / "watched_functions.py"

pytestmark = pytest.mark.usefixtures("watch_of_system_calls")


@contextmanager
def watched(query: SimulatedQuery, folder: Path) -> Iterator[WatchedQuery]:
    with ForkServer(preload=[str(ENTRY)]) as server:
        driver = WatchedQuery(server, query.contract, query.scratch, folder=folder, entry=f"{ENTRY.stem}:serve")
        try:
            yield driver
        finally:
            driver.close()


def campaign(query: SimulatedQuery, folder: Path) -> FunctionResults:
    results = FunctionResults(query.contract, query.scratch, progress=SILENT)
    carried_out = SimulatedFunctionCampaign(query, results, deadline=Deadline(60), watch=lambda: watched(query, folder))
    plan = [stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith(("a crash at", "a death inside"))]
    carried_out.carry_out(plan)
    carried_out.closure()
    return results


@pytest.mark.slow
def test_a_smaller_cluster_goes_on_from_what_some_tasks_of_the_larger_one_have_done(tmp_path: Path) -> None:
    contract = load(f"{FUNCTIONS}/written_by_tasks.py:leave_out_what_is_there")
    scratch = Scratch(name="parts", path=tmp_path / "parts")
    scratch.path.mkdir()
    results = FunctionResults(contract, scratch, progress=SILENT)
    with simulated_query(contract, scratch, progress=SILENT) as simulated, watched_query(contract, scratch) as driver:
        deaths = deaths_between_parts(driver.calls(job=SMALLER_CLUSTER_JOB))
        for death in deaths[-2:]:  # some parts have their names
            strike(Schedule((death,), job=SMALLER_CLUSTER_JOB), driver, simulated, results=results)
    lost = [each.schedule for each in results.findings if each.oracle == "O1"]
    assert lost
    assert all(each.startswith(f"job={SMALLER_CLUSTER_JOB} ") and "syscall(" in each for each in lost), lost


@pytest.mark.slow
def test_a_file_that_a_program_has_begun_is_no_copy(query: Callable[..., SimulatedQuery], tmp_path: Path) -> None:
    simulated = query("copy_unless_there", module="inside_calls")
    lost = [each for each in campaign(simulated, tmp_path).findings if each.claimed]
    assert ["O1"] == [each.oracle for each in lost]
    assert re.fullmatch(r"syscall\((ioctl|copy_file_range|write) out-\*\)#2=kill-job", lost[0].schedule)
    assert "killed in line 26 of inside_calls.py (subprocess.run" in lost[0].why
    with watched(simulated, tmp_path) as driver:
        ending, state, trail = follow(simulated, parse(lost[0].schedule), inside=driver)
    assert 8 == len(ending.committed)
    before = [point for start, point, _ in trail if start == 0]
    assert lost[0].schedule.partition("#")[0] == before[-1]
    assert state.line is not None
    assert 26 == state.line.number


@pytest.mark.slow
def test_a_copy_that_is_renamed_is_right_and_each_call_counts(
    query: Callable[..., SimulatedQuery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What large batches, and a larger cluster, need besides is asked for."""
    asked: list[str] = []
    for name in ("deaths_between_more", "deaths_between_parts"):
        monkeypatch.setattr(deaths_inside_calls, name, lambda *calls, name=name: [asked.append(name)][1:])
    results = campaign(query("copy_and_rename", module="inside_calls"), tmp_path)
    assert [] == [each for each in results.findings if each.claimed]
    outward = results.coverage.outward.document()
    assert outward is not None
    assert 0 == outward.left_total
    assert outward.calls == outward.killed > 1
    assert "syscall(write part)" in outward.names
    assert [name for name in outward.names if name.endswith(" new)")]
    assert {"deaths_between_more", "deaths_between_parts"} == {*asked}


@pytest.mark.slow
def test_deaths_come_between_the_calls_that_only_large_batches_need(
    query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    simulated = query("append_unless_last", module="inside_calls")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    with watched(simulated, tmp_path) as driver:
        usual, larger = driver.calls(), driver.calls(job=LARGE_BATCHES_JOB)
        assert [] == driver.record.left
        for death in deaths_between_more(usual, larger):
            strike(Schedule((death,), job=LARGE_BATCHES_JOB), driver, simulated, results=results)
    assert 1 == len([call for call in usual if "write" in call.death.point])
    assert len([call for call in larger if "write" in call.death.point]) > 2
    assert {"O1"} == {each.oracle for each in results.findings if each.claimed}
    assert all(each.schedule.startswith("job=large-batches syscall(write out)") for each in results.findings)


def test_a_driver_that_dies_is_no_kernel_that_offers_no_watch(
    query: Callable[..., SimulatedQuery], tmp_path: Path
) -> None:
    simulated = query("copy_and_rename", module="inside_calls")
    with (
        ForkServer(preload=[str(ENTRY)]) as server,
        pytest.raises(NotRun, match=r"(?s)its driver ended: .*no spark today"),
    ):
        WatchedQuery(server, simulated.contract, simulated.scratch, folder=tmp_path, entry=f"{ENTRY.stem}:die")
