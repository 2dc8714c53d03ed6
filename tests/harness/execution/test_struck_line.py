"""A run's result names the line in which the struck call was made, not the one that was executed last."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.crash_copies import run_with_copies
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

SUBJECT = """
import json
import threading

from sinkproof import Claim


class PublishesAtOnce:
    def __init__(self, folder):
        self.folder, self.rows, self.context = folder, [], None

    def open(self, context):
        self.context = context

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        {publish}
        self.rows = []
        return b""

    def notify_complete(self, checkpoint_id):
        pass

    def place(self, checkpoint_id):
        return self.folder / f"{{self.context.subtask}}-{{self.context.generation}}-{{checkpoint_id}}"

    def publish(self, checkpoint_id):
        self.place(checkpoint_id).write_text(json.dumps(self.rows))  # here

    def publish_in_a_thread(self, checkpoint_id):
        thread = threading.Thread(target=self.publish, args=[checkpoint_id])
        thread.start()
        while thread.is_alive():
            thread.join(0.0001)


class Contract:
    claims = Claim.NO_LOSS

    def sink(self, scratch):
        return PublishesAtOnce(scratch.path)

    def committed(self, scratch):
        return [row for file in scratch.path.iterdir() for row in json.loads(file.read_text() or "[]")]
"""
NEAREST = "publishes.py:19 in PublishesAtOnce.snapshot"
KINDS = ("kill-job", "kill", "stop", "error", "unanswered")


def contract_at(folder: Path, *, publish: str) -> str:
    file = folder / "publishes.py"
    file.write_text(SUBJECT.format(publish=publish))
    return f"{file}:Contract"


def scratch_at(folder: Path, *, shell: str) -> Scratch:
    (folder / "scratch").mkdir()
    return Scratch(name="struck", path=folder / "scratch", shell=shell)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["publish", "publish_in_a_thread"])
def test_a_process_is_struck_in_the_line_that_makes_the_call(tmp_path: Path, call: str) -> None:
    """The file is created in a line of which another function has executed the last part."""
    contract = load(contract_at(tmp_path, publish=f"self.{call}(checkpoint_id)"))
    with process_runner(contract, scratch_at(tmp_path, shell="process")) as runner:
        kinds = KINDS if call == "publish" else KINDS[:3]  # an error in a thread is not reported to the engine
        for kind in kinds:
            result = runner.run(parse(f"sink[0].file.create#2={kind}"), trace_lines=True)
            assert result.fired
            assert result.struck_line is not None
            assert result.struck_line.text.endswith("# here")
            assert called_from(call) == list(result.struck_line.called_from)


def called_from(call: str) -> list[str]:
    """A thread has a stack of its own."""
    return [f"{NEAREST}: self.publish(checkpoint_id)"] if call == "publish" else []


def test_a_line_that_is_struck_itself_has_the_lines_that_called_it(tmp_path: Path) -> None:
    contract = load(contract_at(tmp_path, publish="self.publish(checkpoint_id)"))
    number = next(at for at, text in enumerate(SUBJECT.splitlines(), 1) if text.endswith("# here"))
    with process_runner(contract, scratch_at(tmp_path, shell="process")) as runner:
        result = runner.run(parse(f"sink[0].line(publishes.py:{number})#1=kill"), trace_lines=True)
    assert result.struck_line is not None
    assert (number, called_from("publish")) == (result.struck_line.number, list(result.struck_line.called_from))


def test_a_fault_outside_of_calls_blames_no_line_of_an_earlier_one(tmp_path: Path) -> None:
    contract = load(contract_at(tmp_path, publish="self.publish(checkpoint_id)"))
    with process_runner(contract, scratch_at(tmp_path, shell="process")) as runner:
        result = runner.run(parse("sink[0].file.create#1=error sink[1].write.before#1=kill"))
    assert result.fired
    assert result.struck_line is None


def test_a_crash_of_the_whole_job_blames_its_own_line(tmp_path: Path) -> None:
    with ScheduleRunner(
        load(contract_at(tmp_path, publish="self.publish(checkpoint_id)")), scratch_at(tmp_path, shell="simulated")
    ) as runner:
        runner.find_own_files()
        result = run_with_copies(runner, parse("sink[0].file.create#1=kill-job"), trace_lines=False)
    assert result.fired
    assert result.struck_line is not None
    assert result.struck_line.text.endswith("# here")
    assert called_from("publish") == list(result.struck_line.called_from)


def test_a_suspended_attempt_below_on_the_stack_is_not_blamed(tmp_path: Path) -> None:
    with ScheduleRunner(load("memory/two-phase"), scratch_at(tmp_path, shell="simulated")) as runner:
        runner.find_own_files()
        suspended = runner.run(parse("sink[0].commit.before#1=stop"))
        other = runner.run(parse("sink[0].commit.before#1=stop sink[1].notify_complete.before#1=kill"))
    assert suspended.struck_line is not None
    assert suspended.struck_line.file == "strategies/two_phase.py"
    assert other.fired
    assert other.struck_line is None
