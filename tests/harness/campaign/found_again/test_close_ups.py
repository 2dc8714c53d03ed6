"""The run of a finding, made once more: each change of the target, the attempt that made it, and what a reader saw."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sinkproof.campaign.campaign_budget import begin
from sinkproof.campaign.found_again import close_ups
from sinkproof.campaign.found_again.close_ups import look_closer
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.judging import target_log
from sinkproof.reports.at_target.target_record import TargetRecord
from sinkproof.reports.document import Finding
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.workload.ledger import Identity

from ....support.zoo_campaigns import ZOO, task_of


def finding(oracle: str, schedule: str, *, shell: str) -> Finding:
    return Finding(oracle=oracle, claimed=True, shell=shell, schedule=schedule, why="", replay="")


def closer_in_memory(folder: Path, *findings: Finding) -> list[TargetRecord | None]:
    """Of a sink that writes straight through, in the simulated shell."""
    contract = load("memory/plain")
    results, scratch = begin(contract, task_of("", "simulated"), folder=folder, progress=SILENT)
    results.findings += findings
    with ScheduleRunner(contract, scratch) as runner:
        look_closer(results, runner)
    return [each.target for each in results.findings]


def test_a_repeated_row_is_seen_once_when_the_fault_strikes_and_twice_in_the_end(tmp_path: Path) -> None:
    (record,) = closer_in_memory(tmp_path, finding("O2", "sink[0].write.after#1=kill", shell="simulated"))
    assert record is not None
    struck = next(place for place, each in enumerate(record.changes) if each.struck)
    before, after = record.changes[:struck], record.changes[struck + 1 :]
    assert ["sink[0]", 1, "write", ("append",)] == [
        getattr(before[-1], key) if key != "did" else tuple(before[-1].did)
        for key in ("actor", "generation", "call", "did")
    ]
    repeated = [each for each in after if each.again]
    assert {("sink[0]", 2)} <= {(each.actor, each.generation) for each in repeated}
    assert before[-1].appeared[0] in [row for each in repeated for row in each.again]
    assert (1, 2, "k0=v0.0") == next(
        (each.when_struck, each.in_the_end, each.sent) for each in record.rows if each.row == (0, 0)
    )
    assert record.rows_after == 24 + sum(len(each.again) for each in record.changes)
    assert [] == list(record.after)  # it has no files


def test_what_the_run_does_not_show_again_gets_no_record(tmp_path: Path) -> None:
    lost = finding("O1", "sink[0].write.after#1=kill", shell="simulated")
    unfired = finding("O2", "sink[0].write.after#900=kill", shell="simulated")
    assert [None, None] == closer_in_memory(tmp_path, lost, unfired)


def test_of_many_wrong_rows_only_those_that_are_shown_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is looked up in a batch of thousands, which is made for it."""
    asked: list[Identity] = []
    monkeypatch.setattr(close_ups, "row_sent", lambda row, source: asked.append(row) or "k=v")
    monkeypatch.setattr(target_log, "ROWS_SEEN_MOST", 2)
    (record,) = closer_in_memory(tmp_path, finding("O2", "sink[0].write.after#1=kill", shell="simulated"))
    assert record is not None
    assert asked == [each.row for each in record.rows]
    assert 2 == len(asked)


def test_the_first_finding_of_each_oracle_gets_one(tmp_path: Path) -> None:
    first = finding("O2", "sink[0].write.after#1=kill", shell="simulated")
    second = finding("O2", "sink[0].write.after#2=kill", shell="simulated")
    kept, left = closer_in_memory(tmp_path, first, second)
    assert kept is not None
    assert left is None


@pytest.mark.slow
def test_a_zombie_that_overwrites_is_seen_to_go_on_and_rows_vanish(tmp_path: Path) -> None:
    """In processes: the attempt of generation 1 replaces the list that generation 2 has written."""
    source = (ZOO / "manifests.py").read_text().splitlines()
    line = 1 + next(place for place, text in enumerate(source) if "def notify_complete" in text) + 1
    found = finding("O9", f"job=slow-detection sink[0].line(manifests.py:{line})#1=stop", shell="process")
    task = task_of("manifests:ZombieOverwrites", "process")
    contract = load(task.locator)
    results, scratch = begin(contract, task, folder=tmp_path, progress=SILENT)
    results.findings.append(found)
    with process_runner(contract, scratch) as runner:
        look_closer(results, runner)
    record = results.findings[0].target
    assert record is not None
    again = next(each for each in record.changes if each.goes_on)
    assert ("sink[0]", 1, "notify_complete", ["replaces manifest-0"]) == (
        *(again.actor, again.generation, again.call),
        list(again.did),
    )
    assert {(0, 4), (0, 5), (1, 5)} == set(again.vanished)
    replaced = [each for each in record.changes if each.generation == 2 and "replaces manifest-0" in each.did]
    assert replaced[0].at < again.at
    assert any(name.startswith("manifest-0 ") for name in record.before)


def test_of_a_change_that_is_cut_what_was_seen_again_is_kept_and_all_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = finding("O2", "sink[0].write.after#1=kill", shell="simulated")
    (whole,) = closer_in_memory(tmp_path / "whole", found)
    monkeypatch.setattr(target_log, "ROWS_MOST", 1)
    (cut,) = closer_in_memory(tmp_path / "cut", found)
    assert whole is not None
    assert cut is not None
    for before, after in zip(whole.changes, cut.changes, strict=True):
        for kind in ("appeared", "again", "vanished"):
            rows, kept, total = getattr(before, kind), getattr(after, kind), getattr(after, f"{kind}_total")
            assert (len(rows), min(1, len(rows))) == (total or len(kept), len(kept))
            assert getattr(before, f"{kind}_total") is None
        assert not Counter(after.again) - Counter(after.appeared)
    assert any(len(each.again) > 1 for each in whole.changes)


def test_a_record_says_what_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = finding("O2", "sink[0].write.after#1=kill", shell="simulated")
    (whole,) = closer_in_memory(tmp_path / "whole", found)
    monkeypatch.setattr(target_log, "CHANGES_MOST", 2)
    (few,) = closer_in_memory(tmp_path / "few", found)
    monkeypatch.setattr(target_log, "CHANGES_MOST", 120)
    monkeypatch.setattr(target_log, "READINGS_MOST", 2)
    (unread,) = closer_in_memory(tmp_path / "unread", found)
    assert whole is not None
    assert few is not None
    assert unread is not None
    assert [] == list(whole.left_out)
    left = len(whole.changes) - 3  # a fault is always recorded
    assert [f"{left} changes after the first 2"] == list(few.left_out)
    assert ["which rows changed after 0.013 s: the reader was asked 2 times"] == list(unread.left_out)
    monkeypatch.setattr(target_log, "READINGS_MOST", 400)
    monkeypatch.setattr(target_log, "READING_SECONDS_MOST", 0.0)
    (slow,) = closer_in_memory(tmp_path / "slow", found)
    assert slow is not None
    assert ["reading has taken 0 s"] == [why.partition(": ")[2] for why in slow.left_out]
    assert [each.row for each in whole.rows] == [each.row for each in unread.rows]
    assert [each.when_struck for each in whole.rows] == [each.when_struck for each in unread.rows]
    assert whole.rows_before == unread.rows_before == 3
