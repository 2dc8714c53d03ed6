"""Where code may treat more data in another way, jobs with as much come, and deaths where only they lead."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators import lines_never_run
from sinkproof.generators.lines_never_run import (
    far_larger_data,
    hundreds_of_checkpoints,
    jobs_of_large_writes,
    jobs_with_new_calls,
    large_values,
    late_death,
    late_deaths,
    many_chunks,
    more_data,
    one_large_checkpoint,
)
from sinkproof.generators.native_calls import after_new_calls, losses_after_failed_forcing
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import LARGE_VALUES_JOB
from sinkproof.workload.jobs import INPUTS

from ...support.traces_of_calls import SYNC, WRITE, run_of

SUBJECTS = Path(__file__).parents[2] / "support/forced_parts.py"
SENT = "syscall(sendto socket)"
PIECE = ("line(pieces.py:7)", WRITE, "line(pieces.py:8)", "syscall(rename rows)")


@pytest.mark.parametrize(
    ("text", "expected", "jobs"),
    [
        ("recent = recent[-50:]", [hundreds_of_checkpoints], ["hundreds-of-checkpoints"]),
        ("LEDGER_DEPTH = 12", [hundreds_of_checkpoints], ["hundreds-of-checkpoints"]),
        ("chunk = 300", [hundreds_of_checkpoints, many_chunks], ["hundreds-of-checkpoints"]),
        ("piece = 8 * 1024 * 1024", [large_values, far_larger_data], ["large-values"]),
        ("piece = 1 << 16", [large_values, far_larger_data], ["large-values"]),
        ("rows = 5000", [far_larger_data], []),
        ("rows = 50_000", [far_larger_data], []),
        ("digest = hashlib.md5(key)", [far_larger_data], []),
        ("number = c_uint8(number)", [hundreds_of_checkpoints], []),
        ("script = 'redis.call(\"PFADD\", KEYS[1], part)'", [hundreds_of_checkpoints], []),
        ("rows = 7", [], []),
    ],
)
def test_numbers_in_the_code_say_which_jobs_come(
    text: str, expected: list[object], jobs: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sink.py").write_text(text)
    files = [str(tmp_path / "sink.py")]
    deaths = late_deaths if "PFADD" in text else late_death
    assert ([*expected, deaths, one_large_checkpoint], jobs) == (more_data(files), jobs_with_new_calls(files))


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("library = CDLL(path)", ["large-batches", "one-large-checkpoint"]),
        ("subprocess.run(['append', path])", ["large-batches", "one-large-checkpoint"]),
        ("import pyarrow.parquet", ["large-batches", "one-large-checkpoint"]),
        ("rows = 5000", ["large-batches", "one-large-checkpoint"]),
        ("import json, sinkproof, other_sink; rows = 600", ["large-batches"]),
    ],
)
def test_code_that_may_write_otherwise_what_is_large_is_struck_there(
    text: str, jobs: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sink.py").write_text(text)
    files = [str(tmp_path / "sink.py")]
    assert jobs == jobs_of_large_writes(files, uses_server=False)
    both = ["large-batches", "one-large-checkpoint"]
    assert both == jobs_of_large_writes([], uses_server=False) == jobs_of_large_writes(files, uses_server=True)


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(
    ("name", "found"), [("Copied", {"O2"}), pytest.param("Renamed", set(), marks=pytest.mark.longer)]
)
def test_a_segment_that_only_much_data_fills_is_sealed_in_one_step_or_in_two(
    name: str, found: set[str], tmp_path: Path
) -> None:
    contract = load(f"{SUBJECTS.with_name('segments_in_c.py')}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="log", path=tmp_path, shell="process")) as runner:
        ProcessCampaign(runner, results).carry_out([stage for stage in NATIVE_CODE if "large batches" in stage.name])
    assert found == {finding.oracle for finding in results.findings if finding.claimed}
    assert all("one-large-checkpoint" in finding.schedule for finding in results.findings)


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(("name", "found"), [("LongValues", {"O12"}), ("WholeLongValues", set())])
def test_calls_that_only_unusual_rows_lead_to_are_struck(name: str, found: set[str], tmp_path: Path) -> None:
    contract = load(f"{SUBJECTS.with_name('long_values_apart.py')}:{name}")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="rows", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([stage for stage in NATIVE_CODE if "unusual rows" in stage.name])
    assert found == {finding.oracle for finding in results.findings if finding.claimed}
    assert all("job=long-values" in finding.schedule for finding in results.findings)
    deaths = [schedule for schedule in campaign.tried if schedule.job == "long-values" and schedule.faults]
    assert deaths


def test_unknown_code_gets_all_jobs_with_more_data() -> None:
    every = {hundreds_of_checkpoints, many_chunks, large_values, far_larger_data}
    assert {*every, late_death, one_large_checkpoint} == {*more_data(())}


@pytest.mark.parametrize(("seconds", "hundreds"), [(1.0, (600, 599, 598, 597, 596)), (60.0, ())])
def test_a_job_dies_after_sixty_checkpoints_and_after_hundreds_if_that_does_not_take_long(
    seconds: float, hundreds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = count(0.0, seconds)
    monkeypatch.setattr(lines_never_run, "now", lambda: next(times))
    late = [str(schedule) for schedule in late_deaths()]
    long = [f"job=hundreds-of-checkpoints checkpoint.persist.after#{at}=kill-job" for at in hundreds]
    long[1:1] = ["job=hundreds-of-checkpoints sink[0].notify_complete.before#1=stop"] if hundreds else []
    assert ["job=dozens-of-checkpoints checkpoint.persist.after#60=kill-job", *long] == late
    assert late[:3] == [*map(str, late_death())]


def test_four_large_values_are_more_than_a_piece_of_eight_megabytes() -> None:
    source = INPUTS[LARGE_VALUES_JOB]
    rows = [row for split in (0, 1) for offset in (0, 2) for row in source.batch(split, offset)]
    assert 8 << 20 < sum(len(row.value) for row in rows) // 2
    assert len({row.value for row in rows}) == len(rows)


def test_the_second_piece_is_new_where_usual_calls_write_one() -> None:
    usual = run_of("notify_complete.before", *PIECE, "notify_complete.after")
    larger = run_of("notify_complete.before", *PIECE, *PIECE, *PIECE, "notify_complete.after")
    found = [str(schedule) for schedule in after_new_calls(larger, usual, kinds=("kill",))]
    write, rename = f"sink[0].{WRITE}", "sink[0].syscall(rename rows)"
    assert [f"{write}#2=kill", f"{write}#3=kill", f"{rename}#2=kill", f"{rename}#3=kill"] == found
    assert [] == after_new_calls(usual, usual)


def test_a_death_comes_before_each_call_where_one_of_them_is_more_than_usual() -> None:
    """The second statement of three is the new one, or the third: the last is that of usual runs."""
    usual = run_of("notify_complete.before", *("line(a.py:1)", SENT) * 3, "notify_complete.after")
    larger = run_of("notify_complete.before", *("line(a.py:1)", SENT) * 5, "notify_complete.after")
    found = [str(schedule) for schedule in after_new_calls(larger, usual)]
    assert [f"sink[0].{SENT}#{number}=kill" for number in (2, 3, 4, 5)] == [each for each in found if "kill" in each]
    assert [f"sink[0].{SENT}#{number}=stop" for number in (4, 5)] == [each for each in found if "stop" in each]


def test_the_second_piece_is_new_too_where_usual_calls_write_none() -> None:
    pieces = run_of("notify_complete.before", *PIECE, *PIECE, "notify_complete.after")
    found = [str(schedule) for schedule in after_new_calls(pieces, run_of("open.before"), kinds=("kill",))]
    assert {f"sink[0].{WRITE}#2=kill", "sink[0].syscall(rename rows)#2=kill"} <= {*found}


def test_as_many_pieces_in_two_calls_are_not_new() -> None:
    call = ("notify_complete.before", *PIECE, "notify_complete.after")
    assert [] == after_new_calls(run_of(*call, *call), run_of(*call))


def test_power_is_lost_at_promises_after_a_file_was_not_forced() -> None:
    commits = ("notify_complete.before", "line(parts.py:7)", SYNC, "notify_complete.after")
    failed = replace(run_of(*commits, *commits, *commits), schedule=parse(f"sink[0].{SYNC}#2=error"))
    places = {str(schedule).rpartition("=")[0] for schedule in losses_after_failed_forcing(failed)}
    assert {f"sink[0].{SYNC}#2=error sink[0].notify_complete.after#{time}" for time in (2, 3)} == places
    other = replace(failed, schedule=parse(f"sink[0].{WRITE}#1=error"))
    assert [] == losses_after_failed_forcing(other)


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("PartsForcedIfPossible", {"O8"}), ("ForcedParts", set())])
def test_what_could_not_be_forced_to_disk_is_not_there_for_good(name: str, found: set[str], tmp_path: Path) -> None:
    stages = [stage for stage in NATIVE_CODE if stage.name.startswith(("outward calls that no line", "errors at"))]
    with process_runner(load(f"{SUBJECTS}:{name}"), Scratch(name=name, path=tmp_path, shell="process")) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings)).carry_out(stages)
    assert found == {finding.oracle for finding in results.findings}
    assert results.coverage.runs > 5
