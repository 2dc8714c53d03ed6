"""What comes late: a vote, the timer that settles what is in doubt, and the job itself after an outage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.execution.contract_host import ContractTarget
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.rare import several_messages
from sinkproof.judging.fault_allowances import gave_up_before_a_zombie_went_on
from sinkproof.reference_engine.shells.carry_out_effects import IN_DOUBT
from sinkproof.sink_adapters.protocol import left_in_doubt, unsettled_ids
from sinkproof.subject.command_contract import locator
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.jobs import OUTAGE_SECONDS

ZOO: Final = Path(__file__).parents[2] / "zoo"


def run(member: str, schedule: str, folder: Path) -> RunResult:
    file, _, name = member.partition(":")
    place = f"{ZOO / file}.py:{name}" if name else member
    with ScheduleRunner(load(place), Scratch(name="late", path=folder)) as runner:
        return runner.run(parse(schedule))


def noted(run_result: RunResult, what: str) -> list[Any]:
    return [detail for _, _, _, each, detail in run_result.history if each == what]


# -- in doubt after open --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ids"), [([3, 4], [3, 4]), ((), []), (None, []), ("done", []), (object(), []), (["3"], [])]
)
def test_only_ids_are_taken_for_what_open_left_in_doubt(answer: object, ids: list[int]) -> None:
    assert ids == left_in_doubt(answer)


@pytest.mark.parametrize(("answer", "ids"), [(None, []), (False, []), ((), []), ({7}, [7]), (iter([2, 3]), [2, 3])])
def test_ids_of_any_kind_of_collection_are_what_is_unsettled(answer: object, ids: list[int]) -> None:
    assert ids == unsettled_ids("settle", answer)


@pytest.mark.parametrize("answer", [True, 3, "done", ["4"], [None]])
def test_anything_else_that_a_notification_returns_is_an_error_that_says_so(answer: object) -> None:
    with pytest.raises(TypeError, match=r"notify_complete\(\) returned .*, not checkpoint ids"):
        unsettled_ids("notify_complete", answer)


def test_transactions_that_open_leaves_in_doubt_are_settled_before_the_next_notification(tmp_path: Path) -> None:
    """The job dies when all is decided: but for the timer, only the closing notification would come."""
    run_result = run("doubtful:NotYet", "checkpoint.persist.after#1=kill", tmp_path)
    assert ((), True) == (run_result.anomalies, run_result.finished)
    assert [1, 1] == [each for ids in noted(run_result, IN_DOUBT) for each in ids]
    points = [point for actor, point in run_result.trace if run_result.names[actor] == "sink[0]"]
    second = points.index("open.before", 1)
    assert "settle.before" in points[second : points.index("snapshot.before", second)]


def test_a_settle_that_returns_something_else_than_ids_is_a_contract_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = load(f"{ZOO / 'doubtful'}.py:NotYet")
    sink = contract.sink(Scratch(name="late", path=tmp_path))
    monkeypatch.setattr(type(sink), "settle", lambda self, now: 3)
    run_result = run("doubtful:NotYet", "checkpoint.persist.after#1=kill", tmp_path)
    assert "settle() returned 3, not checkpoint ids" in str(noted(run_result, "raised"))


# -- a late timer ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("member", "oracles"), [("OneAtATime", []), ("DecidedIsForgotten", ["O1"])])
def test_a_decided_transaction_that_is_not_settled_belongs_into_the_next_snapshot(
    member: str, oracles: list[str], tmp_path: Path
) -> None:
    schedule = "checkpoint.notify#1=lose checkpoint.persist.after#3=kill"
    late = run(f"doubtful:{member}", f"job=late-settling {schedule}", tmp_path)
    assert oracles == [each.oracle for each in late.anomalies]
    assert () == run(f"doubtful:{member}", f"job=sparse {schedule}", tmp_path).anomalies  # the timer was in time


@pytest.mark.slow
def test_a_job_may_give_up_while_a_zombie_holds_what_it_needs_for_hundreds_of_checkpoints(tmp_path: Path) -> None:
    contract = load(f"{ZOO}/sqlite_tables.py:OpenTransaction")
    with process_runner(contract, Scratch(name="late", path=tmp_path, shell="process")) as runner:
        late, dead = (
            runner.run(parse(f"job=hundreds-of-checkpoints sink[0].notify_complete.before#1={kind}"))
            for kind in ("stop", "kill")
        )
    assert ((), False) == (late.anomalies, late.finished)
    assert "database is locked" in late.failure
    assert ((), True) == (dead.anomalies, dead.finished)


@pytest.mark.parametrize(
    ("goes_on", "raised", "gave_up"),
    [(4953, 232.0, True), (None, 232.0, True), (100, 232.0, False), (4953, None, False)],
)
def test_what_fails_after_a_zombie_has_gone_on_counts(
    goes_on: int | None, raised: float | None, *, gave_up: bool
) -> None:
    history: list[tuple[Any, ...]] = [
        (29, "sink[0]", 1, "acknowledged", 2),
        (32, "sink[0]", 1, "notify_complete.before", "stop"),
    ]
    history += [(raised, "sink[0]", 2, "raised", "locked")] if raised else []
    history += [(goes_on, "sink[0]", 1, "acknowledged", 3)] if goes_on else []
    assert gave_up is gave_up_before_a_zombie_went_on(history)


# -- an outage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["TooOldIsDropped", "SweepsByAge"])
def test_a_sink_that_discards_expired_transactions_loses_rows(member: str, tmp_path: Path) -> None:
    death = "checkpoint.persist.after#1=kill"
    assert () == run(f"doubtful:{member}", death, tmp_path).anomalies
    run_result = run(f"doubtful:{member}", f"job=outage {death}", tmp_path)
    assert (["O1"], True) == ([each.oracle for each in run_result.anomalies], run_result.finished)


def test_a_sink_that_reports_an_expired_transaction_is_right(tmp_path: Path) -> None:
    run_result = run("doubtful:TooOldIsLost", "job=outage checkpoint.persist.after#1=kill", tmp_path)
    assert ((), False) == (run_result.anomalies, run_result.finished)
    assert "TransactionLost" in str(noted(run_result, "raised"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("member", "oracles", "finishes"),
    [("SweepsAll", {"O1", "O6"}, False), ("SweepsOwn", set(), True), ("Expiring", set(), False)],
)
def test_no_day_removes_files_but_by_the_sink_itself(
    member: str, oracles: set[str], finishes: bool, tmp_path: Path
) -> None:
    contract = load(f"{ZOO.parent}/support/swept_by_age.py:{member}")
    with process_runner(contract, Scratch(name="late", path=tmp_path, shell="process")) as runner:
        run_result = runner.run(parse("job=outage checkpoint.persist.after#1=kill-job"))
    assert (oracles, finishes) == ({each.oracle for each in run_result.anomalies}, run_result.finished)
    assert finishes or "TransactionLost" in str(noted(run_result, "raised"))


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.parametrize(("mode", "oracles"), [("aging", {"O1", "O6"}), ("", set())])
def test_no_day_removes_files_but_by_a_command_itself(mode: str, oracles: set[str], tmp_path: Path) -> None:
    command = f"perl {ZOO.parent}/support/commands/sink.pl {mode}"
    reader = "sh -c 'cat $SINKPROOF_SCRATCH/out-* 2>/dev/null || true'"
    contract = load(locator(command, reader, "EXACTLY_ONCE"))
    with process_runner(contract, Scratch(name="late", path=tmp_path, shell="process")) as runner:
        run_result = runner.run(parse("job=outage checkpoint.persist.after#2=kill-job"))
    assert oracles == {each.oracle for each in run_result.anomalies}


@pytest.mark.parametrize("pair", ["memory/two-phase", "memory/masked", "memory/write-ahead-upsert"])
def test_our_own_pairs_outlast_a_day(pair: str, tmp_path: Path) -> None:
    run_result = run(pair, "job=outage sink[0].notify_complete.before#1=kill-job", tmp_path)
    assert ((), True, True) == (run_result.anomalies, run_result.finished, run_result.fired)


def test_an_outage_makes_files_and_folders_older(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("old")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = {path: os.lstat(path).st_mtime for path in tmp_path.rglob("*")}
    ContractTarget(load("memory/two-phase"), Scratch(name="late", path=tmp_path)).age(OUTAGE_SECONDS)
    after = {path: os.lstat(path).st_mtime for path in tmp_path.rglob("*")}
    assert 3 == len(before)
    assert [OUTAGE_SECONDS] * 3 == [pytest.approx(before[path] - after[path], abs=0.01) for path in before]


# -- late votes, and lost notifications -----------------------------------------------------------


def test_a_late_vote_lets_the_next_checkpoint_come_first(tmp_path: Path) -> None:
    run_result = run("memory/two-phase", "sink[1].acknowledge.before#1=late", tmp_path)
    assert ((), True, True) == (run_result.anomalies, run_result.finished, run_result.fired)
    assert [2, 3] == noted(run_result, "complete")
    assert "notify_aborted.before" in {point for _, point in run_result.trace}


def test_several_notifications_are_lost_to_one_sink_and_to_all(tmp_path: Path) -> None:
    baseline = run("memory/two-phase", "no-fault", tmp_path)
    found = [" ".join(map(str, faults)) for faults in several_messages(baseline)]
    assert [
        "checkpoint.notify#1=lose checkpoint.notify#3=lose",
        "checkpoint.notify#2=lose checkpoint.notify#4=lose",
        "checkpoint.notify#1=lose checkpoint.notify#2=lose checkpoint.notify#3=lose checkpoint.notify#4=lose",
        "sink[0].acknowledge.before#1=decline sink[0].acknowledge.before#2=decline",
    ] == found
