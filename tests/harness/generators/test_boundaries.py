"""More splits than buckets, long numbers, a leap day: each convicts, and right siblings pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.campaign.task import Task
from sinkproof.certifier.perform import try_again
from sinkproof.chaos.schedule import Schedule, ScheduleError
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.high_yield import (
    longer_generations,
    more_subtasks_than_numbers_have_room_for,
    moved_wall_clocks,
    twelve_sinks,
)
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import LEAP_DAY_JOB
from sinkproof.workload.made_jobs import made_job

SUPPORT = Path(__file__).parents[2] / "support"
SUBJECTS, PADDED = f"{SUPPORT}/boundaries.py", f"{SUPPORT}/padded_subtasks.py"
DEATH = "checkpoint.persist.after#1=kill-job"
APART = "made-apart-4294967296"
WRAPPED = f"ids=20893 {DEATH} checkpoint.persist.after#2=kill-job"


@pytest.mark.parametrize(
    ("wrong", "right", "shell", "schedule", "found"),
    [
        (f"{SUBJECTS}:SharedBuckets", f"{SUBJECTS}:OwnBuckets", "simulated", "job=made-splits-40 no-fault", {"O1"}),
        (f"{SUBJECTS}:ThirtyTwoBits", f"{SUBJECTS}:FortyEightBits", "simulated", f"job={APART} no-fault", {"O1"}),
        (f"{SUBJECTS}:CutOffsets", f"{SUBJECTS}:FortyEightBits", "simulated", f"job={APART} no-fault", {"O1"}),
        (f"{PADDED}:Prefixes", f"{PADDED}:Names", "simulated", f"job=made-subtasks-102 {DEATH}", {"O1", "O6"}),
        (f"{PADDED}:Hundreds", f"{PADDED}:Thousands", "simulated", f"job=made-subtasks-102 {DEATH}", {"O1"}),
        (f"{PADDED}:Bits", f"{PADDED}:Thousands", "process", f"job=made-subtasks-66 {DEATH}", {"O1"}),
        (f"{SUBJECTS}:SixteenBits", f"{SUBJECTS}:SixtyFourBits", "process", WRAPPED, {"O1", "O6"}),
        (f"{SUBJECTS}:Years", f"{SUBJECTS}:Days", "process", "job=leap-day no-fault", {"O1", "O6"}),
    ],
)
def test_what_is_wrong_beyond_a_boundary(wrong: str, right: str, shell: str, schedule: str, found: set[str]) -> None:
    tasks = [Task(locator=name, shell=shell, budget_seconds=0, schedule=schedule) for name in (wrong, right)]
    assert [found, set()] == [{anomaly.oracle for anomaly in try_again(task).anomalies} for task in tasks]


def test_campaigns_go_beyond_these_boundaries(tmp_path: Path) -> None:
    names = f"{SUBJECTS}:Days", f"{PADDED}:Prefixes"
    plain, padded = ([str(each) for each in _planned(name, tmp_path / name[-4:])] for name in names)
    subtasks = [f"job=made-subtasks-102 {DEATH}"]
    apart = [f"job={APART} no-fault"]
    usual = ["job=made-splits-40 no-fault", f"job=made-splits-40 {DEATH}", f"job={LEAP_DAY_JOB} no-fault", WRAPPED]
    assert {*subtasks, *usual} <= {*padded}
    assert {*usual, *apart} <= {*plain}
    assert f"job=made-apart-{1 << 48} no-fault" not in plain, "no log has so many rows"
    assert {*subtasks}.isdisjoint(plain)


@pytest.mark.parametrize(
    ("name", "expected"), [("Hundreds", {"job=made-subtasks-102"}), ("Bits", {"job=made-subtasks-66"})]
)
def test_more_subtasks_than_a_packed_number_has_room_for(name: str, expected: set[str], tmp_path: Path) -> None:
    file = tmp_path / f"{name}.py"
    code = {"Hundreds": "ROOM = 100\nmark = checkpoint * ROOM + subtask", "Bits": "mark = checkpoint << 6 | subtask"}
    file.write_text(Path(PADDED.replace("padded_subtasks", "harmed_parts")).read_text() + code[name] + " if 0 else 0\n")
    planned = _planned(f"{file}:PartFiles", tmp_path / "run")
    assert expected == {str(each).split()[0] for each in planned if "job=made-subtasks" in str(each)}


def _planned(name: str, folder: Path) -> list[Schedule]:
    folder.mkdir()
    planned: list[Schedule] = []

    def plan(campaign: ProcessCampaign) -> list[Schedule]:
        every = longer_generations, more_subtasks_than_numbers_have_room_for, twelve_sinks, moved_wall_clocks
        for generate in every:
            planned.extend(generate(campaign))
        return []

    with process_runner(load(name), Scratch(name=name, path=folder, shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=runner.contract, shell="process"))
        campaign.carry_out([Stage(name="planned", schedules=plan)])
    return planned


def test_each_sink_gets_rows_before_each_checkpoint() -> None:
    job, source = made_job("made-subtasks-102")
    assert 102 == sum(subtask.sink for subtask in job.plan.subtasks)
    assert (2, 6 * 102) == (source.splits, source.rows_per_split)
    assert 40 == made_job("made-splits-40")[1].splits


def test_offsets_begin_and_go_on_where_the_name_says() -> None:
    _, source = made_job(APART)
    assert [4, 5, 1 << 32, (1 << 32) + 1] == [*source.offsets(1)[4:8]]
    read = [row[:2] for offset in source.offsets(1)[::2] for row in source.batch(1, offset)]
    assert [(1, offset) for offset in source.offsets(1)] == read
    reader = source.reader(1, 2)
    assert [(1, offset) for offset in source.offsets(1)[::2]] == [*iter(reader.next, None)]
    restored = source.reader(1, 2)
    restored.restore([(1, 1 << 32)])
    assert ((1, 1 << 32), 4) == (restored.next(), restored.batches_read)
    assert [1 << 32, 0] == [source.first(split) for split in (0, 1)]
    first_rows = [next(iter(source.batch(split, source.first(split)))) for split in (0, 1)]
    assert [(0, 1 << 32), (1, 0)] == [row[:2] for row in first_rows]


def test_twelve_checkpoints_have_as_many_rows_as_the_name_says() -> None:
    job, source = made_job("made-twelve-times-600")
    assert [600] * 12 == [len(source.batch(0, offset)) for offset in range(0, source.length(0), 600)]
    assert 1 == job.configuration.checkpoint_every_batches


@pytest.mark.parametrize(
    "name", ["made-subtasks-129", "made-splits-0", "made-splits-1001", "made-subtasks-x", f"made-apart-{1 << 63}"]
)
def test_no_job_is_larger_than_the_engine_allows(name: str) -> None:
    with pytest.raises(
        ScheduleError,
        match=f"made-exactly-10000, made-twelve-times-12000, made-apart-{1 << 62}, made-subtasks-128, made-splits-1000",
    ):
        made_job(name)
