"""A branch that only an unusual situation reaches is executed, and faults strike there and in the same job."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign import process_campaign
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators import lines_never_run
from sinkproof.generators.fault_sites import DECIDED
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import LARGE_BATCHES_JOB

pytestmark = pytest.mark.slow
STAGE: Final = "unusual situations, while statements never ran"
SINK: Final = """\
import json, os
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.aside, self.keys, self.pending = folder, [], [], set(), {{}}
        self.aborted, self.voted_aside = 0, {{}}

    def open(self, context):
        self.context, self.written = context, context.clock()
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{{subtask}}-{{checkpoint}}", {recovered})

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]
        self.keys |= {{row.key for row in batch}}
        idle, self.written = self.context.clock() - self.written, self.context.clock()
        if {condition}:
            {sin}

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        self.voted_aside[checkpoint_id], self.aside = self.aside, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_aborted(self, checkpoint_id):
        self.aborted += 1  # pragma: no cover

    def notify_complete(self, checkpoint_id):
        self.aborted = 0
        for older in [each for each in self.pending if each <= checkpoint_id]:
            rows = self.pending.pop(older) + self.voted_aside.pop(older)
            self.publish(f"{{self.context.subtask}}-{{older}}", rows)

    def publish(self, name, rows):
        temporary = self.folder / f"temp-{{self.context.subtask}}-{{self.context.generation}}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / f"{{name}}.json")


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""
SITUATIONS: Final = {  # what a sink asks -> the job that answers it
    "not batch.rows": "empty-batches",
    "self.aborted > 4": "many-checkpoints",
    "len(self.pending) > 5": "many-checkpoints",
    "idle > 80000": "long-idle",
    "len(self.keys) > 150": "many-keys",
    "self.context.parallelism > 9": "twelve-sinks",
    "len(os.listdir(self.folder)) > 900": "hundreds-of-checkpoints",
}
IDLE: Final = pytest.param("idle > 80000", marks=pytest.mark.longer)
LOSES_A_ROW: Final = "self.rows[-1:] = []"
SITUATIONS_LEAST: Final = 12
LEAVES_OUT_OF_ITS_STATE: Final = "self.aside, self.rows = self.aside + self.rows, []"


def note_as_struck(campaign: ProcessCampaign) -> None:
    """The stages before have executed and struck all that the standard job and its recovery lead to."""
    campaign.run_traced(Schedule((Fault(COORDINATOR, DECIDED, 2, "kill-job"),)))
    for struck in campaign.results.coverage.lines_by_kind.values():
        struck |= campaign.results.coverage.lines_passed


def explored(
    folder: Path,
    condition: str,
    *,
    sin: str = "self.unusual = True",
    recovered: str = "rows",
    seconds: float | None = None,
) -> tuple[CampaignResults, list[str]]:
    """The results of this stage alone, and the statements that have not run after it."""
    file = folder / f"sink_of_{folder.name}.py"
    file.write_text(SINK.format(condition=condition, sin=sin, recovered=recovered))
    contract = load(f"{file}:Of")
    (folder / "scratch").mkdir()
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=folder / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        results.steering.budget_ends = None if seconds is None else Deadline(seconds)
        before = Stage(name="stages before", explore=note_as_struck)
        campaign.carry_out([before, *(stage for stage in PROCESS_PLAN if stage.name == STAGE)])
    return results, [statement.point for statement in campaign.unexecuted]


@pytest.fixture(autouse=True)
def _as_much_time_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may be busy."""
    for limit in ("SEARCH_SECONDS_MOST", "FAR_LARGER_SECONDS_MOST"):
        monkeypatch.setattr(process_campaign, limit, 600.0)
    monkeypatch.setattr(process_campaign, "FAR_LARGER_SECONDS", (600.0, 600.0))


@pytest.fixture
def situations_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """More data, which comes after them where a number stands in the code, takes longer than they all."""
    monkeypatch.setattr(lines_never_run, "more_data", lambda files: [])


@pytest.mark.parametrize(("condition", "job"), SITUATIONS.items())
def test_what_is_wrong_behind_an_unusual_situation_is_convicted(condition: str, job: str, tmp_path: Path) -> None:
    results, _ = explored(tmp_path, condition, sin=LOSES_A_ROW)
    assert {"O1"} == {finding.oracle for finding in results.findings}
    assert all(f"job={job} " in finding.schedule for finding in results.findings)


@pytest.mark.longer
@pytest.mark.usefixtures("situations_only")
def test_a_right_sink_is_struck_at_the_lines_behind_the_situation(tmp_path: Path) -> None:
    results, unexecuted = explored(tmp_path, "len(self.keys) > 150")
    assert [] == unexecuted
    assert [] == results.findings
    line = next(line for line in results.coverage.lines_passed if line.endswith(":21)"))
    assert all(line in lines for lines in results.coverage.lines_by_kind.values())


@pytest.mark.usefixtures("situations_only")
@pytest.mark.parametrize(
    "condition", ["not batch.rows", pytest.param("self.aborted > 4", marks=pytest.mark.longer), IDLE]
)
def test_a_right_sink_is_acquitted_in_every_situation(condition: str, tmp_path: Path) -> None:
    results, unexecuted = explored(tmp_path, condition)
    assert ([], []) == (unexecuted, results.findings)


def test_faults_are_tried_in_the_job_that_has_led_there(tmp_path: Path) -> None:
    """What the situation has changed is wrong only if the job dies later: no row is lost otherwise."""
    results, _ = explored(tmp_path, "len(self.keys) > 150", sin=LEAVES_OUT_OF_ITS_STATE)
    assert {"O1"} == {finding.oracle for finding in results.findings}
    assert all("job=many-keys " in finding.schedule and "=kill" in finding.schedule for finding in results.findings)


@pytest.mark.longer
def test_a_line_that_no_situation_leads_to_is_left_unexecuted(tmp_path: Path) -> None:
    """In none of them is the sink wrong, nor with more data."""
    results, unexecuted = explored(tmp_path, "len(self.rows) > 10**6")
    tried = {stage.name: stage.run for stage in results.coverage.stages}
    assert tried[STAGE] >= SITUATIONS_LEAST
    assert [f"line(sink_of_{tmp_path.name}.py:21)"] == unexecuted
    assert [] == results.findings


@pytest.mark.longer
def test_nothing_is_searched_for_a_sink_all_of_which_has_run(tmp_path: Path) -> None:
    results, unexecuted = explored(tmp_path, "batch.rows")
    assert ([], 4) == (unexecuted, results.coverage.stages[1].run)  # dozens, hundreds twice, one large checkpoint


def instead_of(data: lines_never_run.Schedules, others: Iterator[Schedule], *, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the numbers in the code ask for this data."""
    asked_for = lines_never_run.more_data

    def changed(files: Collection[str]) -> list[lines_never_run.Schedules]:
        assert data in asked_for(files)
        return [(lambda: others) if each is data else each for each in asked_for(files)]

    monkeypatch.setattr(lines_never_run, "more_data", changed)


LOSES_THE_REST: Final = "self.rows[:] = [row for at, row in enumerate(self.rows) if at % 5000 != 4999]"


def test_far_larger_data_comes_where_a_number_in_the_code_may_begin_to_matter(tmp_path: Path) -> None:
    """Each line has run; what is wrong shows in chunks of 5,000 rows only."""
    results, unexecuted = explored(tmp_path, "batch.rows", sin=LOSES_THE_REST)
    assert [] == unexecuted
    assert {"job=far-larger-data no-fault"} == {finding.schedule for finding in results.findings}


BY_SHORT_DIGEST: Final = "{hashlib.md5(str(row).encode()).hexdigest()[:6]: row for row in self.rows}"
KEEPS_ONE_OF_EACH_DIGEST: Final = f"import hashlib; self.rows[:] = {BY_SHORT_DIGEST}.values()"


def test_far_larger_data_comes_where_rows_are_known_by_a_digest(tmp_path: Path) -> None:
    """Of 16 million digests one is that of two rows among 20,000, and of no two among 600."""
    results, unexecuted = explored(tmp_path, "batch.rows", sin=KEEPS_ONE_OF_EACH_DIGEST)
    assert [] == unexecuted
    assert {"job=far-larger-data no-fault"} == {finding.schedule for finding in results.findings}


NAMES_CHUNKS_BY_ONE_DIGIT: Final = "self.rows[:] = [row for at, row in enumerate(self.rows) if at // 500 < 10]"


def test_many_chunks_come_where_a_number_in_the_code_may_be_the_size_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line has run, and each chunk of 500 rows is whole, up to the tenth. As it might be the number of checkpoints
    as well, hundreds of them would come first.
    """
    instead_of(lines_never_run.hundreds_of_checkpoints, iter(()), monkeypatch=monkeypatch)
    results, unexecuted = explored(tmp_path, "batch.rows", sin=NAMES_CHUNKS_BY_ONE_DIGIT)
    assert [] == unexecuted
    assert {"job=many-chunks no-fault"} == {finding.schedule for finding in results.findings}


FAILS: Final = "rows if len(rows) < 700 else 1 / 0"
TAKES_TOO_MUCH: Final = "rows if len(rows) < 700 else bytearray(1 << 60)"


@pytest.fixture
def thousand_rows_are_far_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs with 1,000 rows for each sink in each checkpoint: with 20,000 they take half a minute."""
    few = [Schedule(run.faults, job=LARGE_BATCHES_JOB) for run in lines_never_run.far_larger_data()]
    instead_of(lines_never_run.far_larger_data, iter(few), monkeypatch=monkeypatch)


@pytest.mark.usefixtures("thousand_rows_are_far_larger")
def test_an_error_of_a_recovery_from_far_larger_data_is_judged(tmp_path: Path) -> None:
    results, _ = explored(tmp_path, "batch.rows", recovered=FAILS)
    assert {"O1", "O6"} == {finding.oracle for finding in results.findings}
    assert all("=kill-job" in finding.schedule for finding in results.findings)


@pytest.mark.usefixtures("thousand_rows_are_far_larger")
def test_nothing_is_upheld_where_only_a_recovery_had_too_little_time_or_memory(tmp_path: Path) -> None:
    results, _ = explored(tmp_path, "batch.rows", recovered=TAKES_TOO_MUCH)
    assert [] == results.findings
    (why,) = results.unknowns
    assert "the job did not recover" in why
    assert "given up" in results.coverage.stages[1].cut


@pytest.mark.usefixtures("thousand_rows_are_far_larger")
@pytest.mark.longer
def test_a_sink_that_never_has_enough_memory_for_far_larger_data_is_not_judged_there(tmp_path: Path) -> None:
    results, _ = explored(tmp_path, "batch.rows", sin="len(self.rows) < 900 or bytearray(1 << 60)")
    assert ([], []) == (results.findings, results.unknowns)
    assert "given up" in results.coverage.stages[1].cut


@pytest.mark.usefixtures("thousand_rows_are_far_larger")
def test_far_larger_data_is_not_begun_where_a_budget_that_holds_has_no_time_for_it(tmp_path: Path) -> None:
    results, _ = explored(tmp_path, "batch.rows", recovered=FAILS, seconds=0)
    stage = results.coverage.stages[1]
    assert (0, False, "") == (stage.run, stage.finished, stage.cut)
    assert not results.steering.required_stages_done
