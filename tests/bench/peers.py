"""What people use today, on the same sink: a Hypothesis state machine, and a loop that kills at random times."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from sinkproof.canaries.controls import FolderContract
from sinkproof.chaos.lines import file_points
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, clear_folder, fresh_folder

ROWS, CHECKPOINTS = 24, 3
NAIVE_JOB = Path(__file__).with_name("naive_job.py")


class Crash(BaseException):
    """The state machine's idea of a kill: it unwinds, which SIGKILL does not."""


class Peer(RuleBasedStateMachine):
    """Drives a contract's sink through writes, checkpoints, notifications and crashes at file effects."""

    contract: Any
    folder: Path
    counts: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.counts["schedules"] += 1
        clear_folder(self.folder)
        self.scratch = Scratch(name="peer", path=self.folder)
        if isinstance(self.contract, InMemory):
            self.contract.clear(self.scratch)
        self.offset, self.id, self.generation = 0, 0, 700_000
        self.complete: tuple[int, int, bytes | None] = (0, 0, None)
        self.crash_at = 0
        self.start()

    def start(self) -> None:
        self.generation += 1
        self.offset, self.id, state = self.complete
        self.sink = self.contract().sink(self.scratch)
        restored = [(0, state)] if state is not None else []
        context = Context(
            generation=self.generation,
            restored=restored,
            subtasks_restored=[old for old, _ in restored],
            checkpoint_id_restored=self.id or None,
            reach=self.reach,
        )
        self.call(self.sink.open, context)

    def reach(self, point: str) -> None:
        if self.crash_at:
            self.crash_at -= 1
            if not self.crash_at:
                raise Crash

    def call(self, function: Any, *arguments: Any) -> Any:
        try:
            with file_points(self.folder, self.reach):
                return function(*arguments)
        except Crash:
            self.start()
            return None

    @rule()
    def write(self) -> None:
        generation = self.generation
        self.call(self.sink.write, Batch([Row(0, self.offset, "k", "v")]))
        self.offset += self.generation == generation  # after a crash the source starts from the checkpoint

    @rule()
    def checkpoint(self) -> None:
        generation = self.generation
        state = self.call(self.sink.snapshot, self.id + 1)
        if self.generation == generation:
            self.id += 1
            self.complete = (self.offset, self.id, state)

    @precondition(lambda self: self.id > 0)
    @rule()
    def notify(self) -> None:
        self.call(self.sink.notify_complete, self.id)

    @rule(after=st.integers(1, 6))
    def crash_soon(self, after: int) -> None:
        self.crash_at = after

    @rule()
    def crash(self) -> None:
        self.start()

    def teardown(self) -> None:
        self.crash_at = 0
        self.start()
        seen = sorted(self.contract().committed(self.scratch))
        expected = [(0, offset) for offset in range(self.complete[0])]
        if seen != expected:
            raise AssertionError(f"{len(seen)} rows instead of {len(expected)}")


class InMemory:
    """memory/two-phase as the state machine wants it: called for a contract, it is always the same one, emptied."""

    def __init__(self) -> None:
        self.given = load("memory/two-phase").given
        self.store: Any = None

    def __call__(self) -> Any:
        return self.given

    def clear(self, scratch: Scratch) -> None:
        self.store = self.store or self.given.freeze(scratch)
        self.given.thaw(scratch, self.store)


def hypothesis_peer(contract: Any, *, examples: int, repeats: int) -> dict[str, Any]:
    """Schedules per second, and the median seconds to a failing one. `contract`: a FolderContract, or InMemory."""
    folder, counts, found = fresh_folder(), {"schedules": 0}, []
    options = settings(
        max_examples=examples,
        stateful_step_count=20,
        deadline=None,
        database=None,
        print_blob=False,
        verbosity=Verbosity.quiet,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    machine = type("Machine", (Peer,), {"contract": contract, "folder": folder, "counts": counts})
    began = process_time()  # of one core, as what it is compared with
    for number in range(repeats):
        start = perf_counter()
        try:
            run_state_machine_as_test(seed(number + 1)(machine), settings=options)
        except AssertionError:
            found.append(perf_counter() - start)
    seconds = process_time() - began
    shutil.rmtree(folder)
    median = sorted(found)[len(found) // 2] if found else None
    return {"schedules_per_s": counts["schedules"] / seconds, "found": len(found), "of": repeats, "find_s": median}


def naive_peer(*, seconds: float, number: int = 1) -> dict[str, Any]:
    """Kills a fresh process at a random time, restarts it until it ends, looks for duplicates; over and over."""
    choose, trials, bad, first = random.Random(number), 0, 0, None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = perf_counter()
        run_naive(folder / "calibration", None)
        whole = perf_counter() - start
        start = perf_counter()
        while perf_counter() - start < seconds:
            trials += 1
            place = folder / str(trials)
            run_naive(place, choose.random() * whole)
            seen = sorted(FolderContract().committed(Scratch(name="naive", path=place)))
            if seen != [(0, offset) for offset in range(ROWS)]:
                bad += 1
                first = first or perf_counter() - start
            shutil.rmtree(place)
        elapsed = perf_counter() - start
    return {"trials_per_s": trials / elapsed, "trials": trials, "found": bad, "find_s": first, "at_least_s": elapsed}


def run_naive(folder: Path, kill_after: float | None) -> None:
    folder.mkdir()
    command = [sys.executable, str(NAIVE_JOB), str(folder), str(ROWS), str(CHECKPOINTS)]
    process = subprocess.Popen(command)
    try:
        process.wait(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        subprocess.run(command, check=True)
