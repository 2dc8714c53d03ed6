"""A reader that waits forever for a lock of a suspended attempt does not stop the run."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.execution.process_runner import process_runner
from sinkproof.judging import observer
from sinkproof.judging.patience import WaitedTooLong, within
from sinkproof.judging.target_log import TargetLog
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

LOCKING = """
import fcntl, json
from sinkproof import Claim
from sinkproof.judging.patience import WaitedTooLong

class Sink:
    def __init__(self, folder):
        self.folder = folder

    def is_committed(self, part):
        return (self.folder / f"{part}.json").exists()

    def publish(self, part, rows):
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            temporary = self.folder / f"{part}.new"
            temporary.write_text(json.dumps([[row.split, row.offset] for row in rows]))
            temporary.rename(self.folder / f"{part}.json")

    def record(self, part):
        "Nothing: the file is the mark."

class Locking:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        with (scratch.path / "lock").open("a") as lock:
            self.wait(lock)
            for file in sorted(scratch.path.glob("*.json")):
                yield from json.loads(file.read_text())

    def wait(self, lock):
        fcntl.flock(lock, fcntl.LOCK_EX)

class NativeReader(Locking):
    def wait(self, lock):
        "Like code in C that tries again when a signal has interrupted it."
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX)
            except WaitedTooLong:
                pass
"""


def test_what_waits_is_interrupted_and_what_was_set_before_is_there_again() -> None:
    before, (rest, interval) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    ended = threading.Event()
    with pytest.raises(WaitedTooLong), within(0.5, otherwise=ended.set):
        threading.Event().wait()
    assert before == signal.getsignal(signal.SIGALRM)
    rest_now, interval_now = signal.getitimer(signal.ITIMER_REAL)
    assert (bool(rest), interval) == (bool(rest_now), interval_now)
    assert rest_now <= rest
    assert not ended.is_set()


def test_what_no_signal_interrupts_is_let_go_by_another_thread() -> None:
    ended = threading.Event()
    with within(0.01, otherwise=ended.set):
        while not ended.is_set():
            try:
                ended.wait()
            except WaitedTooLong:
                continue
    assert ended.is_set()


def test_another_thread_than_the_main_one_is_not_interrupted() -> None:
    ended, read = threading.Event(), []

    def wait() -> None:
        with within(0.01, otherwise=ended.set):
            read.append(ended.wait())

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join()
    assert [True] == read


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Locking", "NativeReader"])
def test_a_reader_waits_for_no_lock_of_a_suspended_attempt_for_ever(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "WAITS_SECONDS_MOST", 0.3)
    file = tmp_path / f"{name.lower()}.py"
    file.write_text(LOCKING)
    (tmp_path / "scratch").mkdir()
    line = LOCKING.splitlines().index('            temporary.rename(self.folder / f"{part}.json")') + 1
    contract = load(f"{file}:{name}")
    with process_runner(contract, Scratch(name="locks", path=tmp_path / "scratch", shell="process")) as runner:
        log = TargetLog()
        runner.attach = log.attach  # it reads when the fault is injected
        result = runner.run(parse(f"sink[0].line({file.name}:{line})#1=stop"))
        assert (True, True, ()) == (result.fired, result.finished, result.anomalies)
        assert {f"line({file.name}:{line})"} == runner.locked_at
