"""What a sink has forked processes do has run, although no line of theirs is struck: their system calls are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.certifier.code_coverage import code_coverage
from sinkproof.certifier.not_examined import not_examined
from sinkproof.certifier.subject_progress import SubjectProgress, statements_never_run
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.process_runner import process_runner
from sinkproof.reports.coverage_text import code_lines
from sinkproof.reports.json_files import plain
from sinkproof.reports.watched_calls import OutwardCalls
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.static_analysis.reachable_lines import Duty

SINK: Final = """\
import json, multiprocessing
from sinkproof import Claim

FORKED = multiprocessing.get_context("fork")


class Sink:
    def __init__(self, folder):
        self.folder = folder

    def is_committed(self, part):
        return (self.folder / f"{part}.json").exists()

    def publish(self, part, rows):
        child = FORKED.Process(target=self.put, args=(part, [[row.split, row.offset] for row in rows]))
        child.start()
        child.join()

    def put(self, part, rows):
        temporary = self.folder / f"{part}.new"
        temporary.write_text(json.dumps(rows))
        if len(rows) > 1000000:
            temporary.unlink()
        temporary.rename(self.folder / f"{part}.json")

    def record(self, part):
        pass


class Of:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())
"""
OF_CHILD: Final = {f"line(forking.py:{number})" for number in (20, 21, 22, 24)}


@pytest.fixture
def subject(tmp_path: Path) -> SubjectProgress:
    (tmp_path / "forking.py").write_text(SINK)
    (tmp_path / "scratch").mkdir()
    contract = load(f"{tmp_path / 'forking.py'}:Of")
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=tmp_path / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, results)
        campaign.run_traced(Schedule())
        assert ["line(forking.py:23)"] == [each.point for each in campaign.unexecuted]
        assert () == runner.run(Schedule()).lines_of_children, "without a trace nothing is recorded"
    outcome = results.outcome(seconds=1.0)
    made = SubjectProgress(contract, [outcome.result])
    made.add_code(outcome)
    made.lines_passed |= outcome.lines_passed
    return made


@pytest.mark.slow
def test_lines_of_children_have_run_and_are_told_apart(subject: SubjectProgress) -> None:
    assert OF_CHILD == subject.lines_of_children
    assert OF_CHILD.isdisjoint(subject.lines_passed)
    assert ["line(forking.py:23)"] == statements_never_run(subject, Duty.NORMAL)
    (file,) = code_coverage(subject)
    assert [20, 21, 22, 24] == file.of_children
    document = {"shells": [], "code": [plain(file)]}
    assert "of which only system calls were struck: 20, 21, 22, 24" in " ".join(code_lines(document))


@pytest.mark.slow
@pytest.mark.parametrize(("unwatched", "is_unknown"), [("no seccomp", True), ("", False)])
def test_without_a_watch_of_system_calls_nothing_of_a_child_is_struck(
    subject: SubjectProgress, unwatched: str, *, is_unknown: bool
) -> None:
    (shell,) = subject.shells
    subject.shells = [replace(shell, outward=OutwardCalls(calls=1, killed=1, unwatched=unwatched))]
    assert is_unknown is ("line(forking.py:20) is executed by a forked child" in not_examined(subject))
