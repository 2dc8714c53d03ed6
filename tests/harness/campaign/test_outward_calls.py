"""Commands in four languages, killed inside: wrong ones between two system calls of a commit, and right siblings."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE, OUTWARD_CALLS
from sinkproof.campaign.outward_coverage import OutwardCoverage, kills, recovery_kills
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.not_examined import not_examined
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.schedule import Fault, Schedule, parse
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.single_faults import at_outward_calls
from sinkproof.judging.oracle import Anomaly
from sinkproof.reports.coverage_text import code_lines
from sinkproof.reports.document import OutwardCalls, ShellResult
from sinkproof.reports.json_files import plain
from sinkproof.subject.command_contract import locator
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

COMMANDS = Path(__file__).parents[2] / "support/commands"
READER = """sh -c 'cat "$SINKPROOF_SCRATCH"/out-* 2>/dev/null || true'"""
WHOLE_LINES = """sh -c 'grep -h "\\]$" "$SINKPROOF_SCRATCH"/out-* 2>/dev/null || true'"""
needs_watch = pytest.mark.usefixtures("watch_of_system_calls")
PROGRAMS = {"perl": "sink.pl", "bash": "sink.sh", "go": "sink.go", "javac": "Sink.java"}


def built(language: str, folder: Path) -> str:
    """The words that run the sink of this language."""
    if shutil.which(language) is None:
        pytest.skip(f"there is no {language}")
    source = COMMANDS / PROGRAMS[language]
    match language:
        case "go":
            subprocess.run(["go", "build", "-o", folder / "sink", source], check=True, capture_output=True)
            return str(folder / "sink")
        case "javac":
            subprocess.run(["javac", "-d", folder, source], check=True, capture_output=True)
            return f"java -XX:TieredStopAtLevel=1 -cp {folder} Sink"
    return f"{language} {source}"


@contextmanager
def runner_of(command: str, *, reader: str = READER, claims: str = "EXACTLY_ONCE") -> Iterator[ProcessRunner]:
    contract = load(locator(command, reader, claims))
    with (
        scratch_folder() as folder,
        process_runner(contract, Scratch(name="outward", path=folder, shell="process")) as runner,
    ):
        yield runner


def run(runner: ProcessRunner, *schedules: str) -> list[RunResult]:
    results = [runner.run(parse(schedule)) for schedule in schedules]
    assert all(result.fired and result.finished for result in results), [result.schedule for result in results]
    return results


def oracles(result: RunResult) -> set[str]:
    return {anomaly.oracle for anomaly in result.anomalies}


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize("language", PROGRAMS)
def test_a_command_that_is_wrong_between_two_calls_of_its_commit_is_convicted_there_only(
    language: str, tmp_path: Path
) -> None:
    with runner_of(f"{built(language, tmp_path)} wrong") as runner:
        alone, edge, before, within = run(
            runner,
            "no-fault",
            "sink[0].notify_complete.after#1=kill",
            "sink[0].syscall(openat out-*)#1=kill",
            "sink[0].syscall(openat done-*-*)#1=kill",
        )
    assert [set(), set(), set(), {"O2"}] == list(map(oracles, (alone, edge, before, within)))
    assert ("", ()) == (alone.unwatched, alone.unseen)
    assert 1 == within.kills


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "kinds"),
    [
        ("perl", ("kill", "stop", "land", "error", "unanswered", "pause")),
        ("bash", ("kill", "land")),
        pytest.param("go", ("kill", "stop", "land", "error"), marks=pytest.mark.longer),
        pytest.param("javac", ("kill", "stop"), marks=pytest.mark.longer),
    ],
)
def test_its_right_sibling_is_killed_held_back_and_failed_there_and_stays_right(
    language: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    with runner_of(f"{built(language, tmp_path)} right") as runner:
        (alone,) = run(runner, "no-fault")
        renames = [fault for fault in kills(alone) if "(rename" in fault.point]
        assert {"sink[0]", "sink[1]"} == {fault.actor for fault in renames}
        last = renames[-1]
        faults = [replace(last, kind=kind) for kind in kinds]
        results = run(runner, *(str(Schedule((fault,))) for fault in faults))
    assert [set()] * len(faults) == list(map(oracles, results))


@needs_watch
@pytest.mark.slow
def test_a_late_effect_of_a_zombie_is_seen_although_nothing_follows_it() -> None:
    with runner_of(f"perl {COMMANDS / 'sink.pl'} wrong") as runner:
        (landed,) = run(runner, "sink[0].syscall(write out-*)#1=land")
    assert {"O2", "O9"} == oracles(landed)
    assert ["died"] == [what for _, actor, _, what, _ in landed.history if actor == "sink[0]" and what == "died"]
    assert 1 == landed.kills


@needs_watch
@pytest.mark.slow
def test_a_campaign_kills_before_each_outward_call_and_lists_those_of_the_recoveries() -> None:
    with runner_of(f"perl {COMMANDS / 'sink.pl'} right") as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out(OUTWARD_CALLS[:1])
    outward = results.coverage.outward
    assert (18, 18) == (len(outward.calls), sum(outward.calls.values()))
    assert {"syscall(openat temp-*-*)", "syscall(write temp-*-*)", "syscall(rename out-*-*)"} == outward.passed
    assert outward.recoveries
    assert not any(outward.recoveries.values())
    for schedule in outward.recoveries:
        first, second = schedule.faults
        assert is_system_call(second.point), schedule
        assert replace(first, kind="kill") in {each.faults[0] for each in outward.calls}
    shell = results.document(seconds=1.0)
    subject = SubjectProgress(runner.contract, shells=[shell])
    assert "faults at outward calls did not strike" in not_examined(subject)
    (sentence,) = code_lines(plain(judge_subject(subject)))
    assert sentence.startswith("killed before each of 18 outward calls, and 0 of their recoveries'")


def test_servers_that_it_connects_to_are_named_beside_upheld() -> None:
    contract = load(locator("true", "true", "NO_LOSS"))
    outward = OutwardCalls(calls=3, killed=3, peers=["10.0.0.5:5432"])
    shell = ShellResult(shell="process", schedules_run=9, schedules_in_bound=9, kills=3, seconds=1.0, outward=outward)
    subject = SubjectProgress(contract, shells=[shell])
    assert ("upheld", "") == (judge_subject(subject).verdict, not_examined(subject))
    said = "what 10.0.0.5:5432 did inside with what it was sent was not examined, nor what expires there"
    assert said in judge_subject(subject).why
    _, sentence = code_lines(plain(judge_subject(subject)))
    assert sentence == "it connects to 10.0.0.5:5432, where nothing was struck inside, and no clock moved"


AT_ITS_START = r"""
use strict; use warnings; $| = 1;
open my $started, ">", "$ENV{SINKPROOF_SCRATCH}/started-$ENV{SINKPROOF_SUBTASK}-$ENV{SINKPROOF_GENERATION}" or die;
close $started;
while (<STDIN>) { print /"call": "snapshot"/ ? qq({"ok": true, "state": ""}\n) : qq({"ok": true}\n); }
"""


@needs_watch
@pytest.mark.slow
def test_a_command_is_killed_between_the_writes_of_a_large_batch() -> None:
    with runner_of(f"perl {COMMANDS / 'sink.pl'} skipping", reader=WHOLE_LINES) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([stage for stage in NATIVE_CODE if "large batches" in stage.name])
    (found,) = {(finding.oracle, finding.schedule) for finding in results.findings}
    assert ("O1", "job=large-batches sink[0].syscall(write out-*-*)#2=kill") == found


@needs_watch
@pytest.mark.slow
@pytest.mark.parametrize(("how", "found"), [("careless", {"O8"}), ("forcing", set())])
def test_power_is_lost_after_a_file_could_not_be_forced_to_disk(how: str, found: set[str]) -> None:
    command = f"perl {COMMANDS / 'sink.pl'} {how}"
    with runner_of(command, claims="EXACTLY_ONCE,SURVIVES_POWER_LOSS") as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([stage for stage in OUTWARD_CALLS if "could not be forced" in stage.name])
    assert found == {finding.oracle for finding in results.findings}
    assert any("(fsync " in fault.point for schedule in campaign.tried for fault in schedule.faults)
    assert all("(fsync " in finding.schedule for finding in results.findings)


@needs_watch
@pytest.mark.slow
def test_a_call_at_the_very_start_of_a_command_is_struck_before_its_first_request(tmp_path: Path) -> None:
    program = tmp_path / "starts.pl"
    program.write_text(AT_ITS_START)
    with runner_of(f"perl {program}") as runner:
        kills_at_start = [f"sink[{number}].syscall(openat started-*-*)#1=kill" for number in (0, 1)]
        results = [runner.run(parse(schedule)) for schedule in kills_at_start for _ in range(3)]
    assert [(True, 1)] * 6 == [(result.fired, result.kills) for result in results]


MARKS_ELSEWHERE = """
use strict; use warnings; $| = 1;
while (<STDIN>) {
  if (/"notify_complete"/) { open my $file, ">", "$ENV{ELSEWHERE}/mark-$ENV{SINKPROOF_SUBTASK}" or die; close $file; }
  print /"call": "snapshot"/ ? qq({"ok": true, "state": ""}\n) : qq({"ok": true}\n);
}
"""


@needs_watch
@pytest.mark.slow
def test_what_a_command_changes_elsewhere_is_struck_and_what_stays_there_leaves_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, elsewhere = tmp_path / "marks.pl", tmp_path / "else"
    program.write_text(MARKS_ELSEWHERE)
    for folder in (elsewhere, tmp_path / "temporary"):
        folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("ELSEWHERE", str(elsewhere))
    with runner_of(f"perl {program}") as runner:
        first = runner.run(Schedule())
        (kill, *_) = kills(first)
        again = runner.run(Schedule((kill,)))
    assert kill.point.endswith("else/mark-*)")
    assert (True, 1) == (again.fired, again.kills)
    coverage = OutwardCoverage()
    for result in (first, again):
        coverage.add(result)
    document = coverage.document()
    assert document is not None
    assert {f"{elsewhere}/mark-0", f"{elsewhere}/mark-1"} == set(document.kept_elsewhere)


POINTS = ("syscall(openat temp)", "syscall(rename out)")
NAMES = ("coordinator", "sink[0]")


def result_of(schedule: str, *trace: str, struck: bool = True, **more: object) -> RunResult:
    parsed = parse(schedule)
    return RunResult(
        schedule=parsed,
        struck=parsed.faults if struck else (),
        anomalies=tuple[Anomaly, ...](),
        trace=[(1, point) for point in trace],
        names=NAMES,
        history=[],
        finished=True,
        failure="",
        rows_committed=1,
        **more,  # type: ignore[arg-type]
    )


def test_new_names_are_killed_before_second_occurrences() -> None:
    found = kills(result_of("no-fault", POINTS[0], POINTS[0], POINTS[1]))
    assert [(POINTS[0], 1), (POINTS[1], 1), (POINTS[0], 2)] == [(fault.point, fault.occurrence) for fault in found]


def test_calls_of_a_recovery_are_those_of_openings_after_the_death() -> None:
    trace = ("open.before", POINTS[0], "open.after", POINTS[0], "open.before", POINTS[1], "open.after", POINTS[1])
    found = recovery_kills(result_of(f"sink[0].{POINTS[0]}#2=kill", *trace))
    assert [Fault("sink[0]", POINTS[1], 1, "kill")] == list(found)


def test_a_call_that_a_recovery_does_not_make_again_is_left_unless_its_name_was_killed_elsewhere() -> None:
    first = f"sink[0].{POINTS[0]}#1=kill"
    pair = f"{first} sink[1].{POINTS[1]}#1=kill"
    coverage = OutwardCoverage()
    coverage.recoveries[parse(pair)] = False
    again = replace(result_of(pair, POINTS[0]), struck=parse(first).faults)
    for result in (result_of(pair, struck=False), again, again):  # the first one shows nothing of a recovery
        coverage.add(result)
        assert [parse(pair)] == coverage.left()
    coverage.add(result_of(f"sink[0].{POINTS[1]}#1=kill", POINTS[1]))
    assert [] == coverage.left()
    assert not coverage.recoveries[parse(pair)], "it was not killed there"


def test_a_run_that_does_not_meet_the_call_leaves_it_open_and_one_that_does_closes_it() -> None:
    coverage = OutwardCoverage()
    coverage.add(result_of("no-fault", POINTS[1]))
    kill = f"sink[0].{POINTS[1]}#1=kill"
    coverage.add(result_of(kill, POINTS[0], struck=False))
    assert [parse(kill)] == coverage.left()
    assert [POINTS[0], POINTS[1]] == coverage.never_struck()
    coverage.add(result_of(kill, POINTS[1]))
    assert [] == coverage.left()
    assert not coverage.is_enough()
    for kind in ("stop", "pause", "error", "land", "unanswered"):
        assert [POINTS[1]] == coverage.names_left(kind)
        coverage.add(result_of(f"sink[0].{POINTS[1]}#1={kind}", POINTS[1]))
    assert [POINTS[0]] == coverage.never_struck()
    coverage.add(result_of(f"sink[0].{POINTS[0]}#1=kill", POINTS[0]))
    assert coverage.is_enough()


@pytest.mark.parametrize(
    ("outward", "why"),
    [
        (None, "no system call was seen"),
        (OutwardCalls(unwatched="the container forbids seccomp(2)"), "because the container forbids seccomp(2)"),
        (OutwardCalls(calls=3, killed=3, unseen=["it maps log into its memory"]), "it maps log into its memory"),
        (OutwardCalls(calls=3, killed=2, left=["x#1=kill"], left_total=1), "1 faults at outward calls did not strike"),
        (OutwardCalls(calls=3, killed=3, kept_elsewhere=["/var/mark"]), "as it leaves them"),
        (OutwardCalls(calls=3, killed=3), ""),
    ],
)
def test_a_command_is_upheld_only_if_each_outward_call_was_seen_and_struck(
    outward: OutwardCalls | None, why: str
) -> None:
    contract = load(locator("true", "true", "NO_LOSS"))
    shell = ShellResult(shell="process", schedules_run=9, schedules_in_bound=9, kills=3, seconds=1.0, outward=outward)
    subject = SubjectProgress(contract, shells=[shell])
    assert why in not_examined(subject)
    (claim,) = [claim for claim in judge_subject(subject).claims if claim.claim == "NO_LOSS"]
    assert ("unknown" if why else "upheld") == claim.verdict


def test_faults_at_outward_calls_strike_the_first_time_and_the_last() -> None:
    class View:
        baseline = replace(
            result_of("no-fault", POINTS[1], POINTS[1], POINTS[1]), statements=frozenset({("sink[0]", POINTS[1], 2)})
        )

    found = {str(schedule) for schedule in at_outward_calls(View())}  # type: ignore[arg-type]
    kinds = ("stop", "error", "land", "pause", "unanswered")
    twice = {f"sink[0].{POINTS[1]}#{number}={kind}" for kind in kinds for number in (1, 3)}
    assert twice | {f"sink[0].{POINTS[1]}#2=refused-statement"} == found
