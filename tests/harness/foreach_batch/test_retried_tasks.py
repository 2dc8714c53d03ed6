"""A task of Spark has done its work, and dies before Spark knows: it is run again, and its batch goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.certifier.replay import replay
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import parse
from sinkproof.foreach_batch.certify_function import simulated_query
from sinkproof.foreach_batch.certifying_query import BEFORE_COMMIT, anomalies_of
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import ERRORS_AND_OTHER_BATCHES, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.retried_tasks import CLOCK, has_tasks_in_python
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, clear_folder
from sinkproof.workload.job_names import OUTAGE_JOB

from ...support.explored_functions import FUNCTIONS

SCHEDULE = "job=retried-task micro_batch.batch.before#2=error"
STAGES = [stage for stage in ERRORS_AND_OTHER_BATCHES if stage.name.startswith("tasks of Spark that die")]


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SimulatedQuery]]:
    """By function, in one session."""
    path = tmp_path_factory.mktemp("tasks") / "scratch"
    path.mkdir()
    names = ("append", "replace", "replace_by_name", "replace_in_folder_of_today")
    functions = [load(f"{FUNCTIONS}/written_by_tasks.py:{name}") for name in names]
    with simulated_query(functions[0], Scratch(name="tasks", path=path), progress=SILENT) as query:
        scratch, session, kills_task = query.scratch, query.session, query.kills_task
        yield {
            name: SimulatedQuery(function, scratch, session, kills_task=kills_task)
            for name, function in zip(names, functions, strict=True)
        }


@pytest.mark.slow
@pytest.mark.parametrize(("function", "found"), [("append", {SCHEDULE: "O2"}), ("replace", {})])
def test_what_a_task_appends_is_there_twice(
    function: str, found: dict[str, str], queries: dict[str, SimulatedQuery]
) -> None:
    query = queries[function]
    clear_folder(query.scratch.path)
    results = FunctionResults(query.contract, query.scratch, progress=SILENT)
    SimulatedFunctionCampaign(query, results, deadline=Deadline(60)).carry_out(STAGES)
    assert found == {finding.schedule: finding.oracle for finding in results.findings if finding.claimed}
    assert ([1], []) == ([stage.run for stage in results.coverage.stages], results.unknowns)
    assert query.kills_task is not None
    assert not query.kills_task.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("function", "found"), [("replace_in_folder_of_today", ["O2"]), ("replace_by_name", [])])
def test_tasks_show_the_day_that_the_driver_does(
    function: str, found: list[str], queries: dict[str, SimulatedQuery]
) -> None:
    query = queries[function]
    clear_folder(query.scratch.path)
    ending, _, _ = follow(query, parse(f"job={OUTAGE_JOB} {BEFORE_COMMIT}#2=kill-job"))
    assert "" == ending.failure
    assert found == [anomaly.oracle for anomaly in anomalies_of(ending, "append", job=OUTAGE_JOB)]
    assert query.kills_task is not None
    assert [] == [path for path in query.kills_task.parent.iterdir() if path.name == CLOCK]


@pytest.mark.slow
@pytest.mark.longer
def test_its_schedule_is_replayed() -> None:
    replayed = replay(SCHEDULE, f"{FUNCTIONS}/written_by_tasks.py:append")
    assert ["O2"] == [anomaly.oracle for anomaly in replayed.run_result.anomalies]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("df.foreachPartition(send)", True),
        ("df.rdd.map(send)", True),
        ("@udf\ndef f(x): return x", True),
        ("df.write.json('out')", False),
        ("df.collect()", False),
    ],
)
def test_code_that_runs_in_tasks_is_known(text: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "function.py").write_text(text)
    assert expected is has_tasks_in_python([str(tmp_path / "function.py")])
