"""Certifies a foreachBatch function: simulated first, then on real Structured Streaming; and replays what was found."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.foreach_batch.function_canaries import blind_spots
from sinkproof.foreach_batch.function_results import Record
from sinkproof.foreach_batch.real_streaming import Experiment, StreamingLaboratory
from sinkproof.foreach_batch.simulated_batches import Exploration, SimulatedQuery, follow
from sinkproof.foreach_batch.streaming_query import AFTER_COMMIT, EARLY, KILL, LOSE, Ending
from sinkproof.reference_engine.shells.spark.java_installation import SparkUnavailable
from sinkproof.reference_engine.shells.spark.spark_session import start_session, stop_session
from sinkproof.reports.document import ClosureResult, SourceLine
from sinkproof.reports.progress import Progress
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.services_in_use import ServicesInUse

SEQUENCES_SHARE: Final = 0.5  # of the budget: by then single crashes are done, and more of them show little that is new
EXPERIMENTS_LEAST: Final = 3  # whatever the budget: the lost commit, a kill before it, and one at the last line
BEAT_SECONDS: Final = 1.0


def explore(contract: Contract, task: Task, *, progress: Progress) -> ShellOutcome:
    """One shell's part of the certificate. Raises ContractError where there is no Spark."""
    progress.start(task.name, task.shell, None)
    record, began = Record(contract, task.shell, nodes=task.services.nodes), now()
    with _place(contract, task, progress=progress) as scratch:
        closure = SHELLS[task.shell](record, scratch, task=task, progress=progress)
    progress.done(f"{len(record.findings)} findings")
    return record.outcome(seconds=now() - began, closure=closure)


def try_again(contract: Contract, task: Task, *, progress: Progress) -> RunResult:
    """One schedule, from the empty folder."""
    schedule = parse(task.schedule, kinds=frozenset(KINDS))
    for fault in schedule.faults:
        if (
            fault.kind not in (KILL, LOSE)
            or fault.actor != COORDINATOR
            or (fault.kind, fault.point == AFTER_COMMIT) == (LOSE, False)
        ):
            raise ContractError(
                f"{fault}: a foreachBatch function is crashed by {KILL} at any point of its query, or by "
                f"{AFTER_COMMIT}#N={LOSE}, which removes the last commits/N"
            )
    with _place(contract, task, progress=progress) as scratch:
        if task.shell == "simulated":
            with simulated_query(contract, scratch, progress=progress) as query:
                ending, state, trail = follow(query, schedule)
                return _trial(contract, schedule, ending, struck=state.faults, line=state.line, trail=trail)
        with streaming_laboratory(contract, scratch, task=task, progress=progress) as runner:
            done = runner.run(schedule.faults)
            if done.why_not:
                raise ContractError(done.why_not)
            return _trial(
                contract, schedule, done.ending, struck=done.struck, line=done.line, trail=done.trail, kills=done.kills
            )


# -- simulated -------------------------------------------------------------------------------------


def _simulated(record: Record, scratch: Scratch, *, task: Task, progress: Progress) -> ClosureResult | None:
    deadline = Deadline(task.budget_seconds * SEQUENCES_SHARE)
    contract = record.contract
    with simulated_query(contract, scratch, progress=progress) as query:
        record.unknowns += blind_spots(scratch, query.session)
        exploration = Exploration(query, should_stop=lambda: deadline.over, step=lambda what: progress.step(what, 0))
        exploration.run()
    record.lines_known = query.tracer.known()
    _base(record, exploration.base)
    for judged in exploration.states.values():
        record.passed.update(fault.point for fault in judged.crashes)
        if judged.is_run:
            record.runs += 1
            record.rows += judged.rows
            wrong = record.find(judged.anomalies, Schedule(judged.first.faults), line=judged.first.line)
            record.crashed(judged.crashes, wrong=wrong)
    record.in_bound = len(exploration.states) + 1
    why = (
        ""
        if exploration.complete
        else "what is wrong already is not crashed again"
        if exploration.bad_states
        else ("the budget ended before every sequence of crashes was tried")
    )
    return ClosureResult(states=len(exploration.states), complete=exploration.complete, why=why)


def _base(record: Record, ending: Ending) -> None:
    """Without any fault."""
    record.runs += 1
    record.rows += len(ending.committed)
    if ending.failure or not ending.committed:
        record.unknowns.append(f"without any fault, {ending.failure or ending.unreadable or 'no row was committed'}")
        return
    record.find(ending.anomalies(record.contract.rows), Schedule(), line=None)


@contextmanager
def simulated_query(contract: Contract, scratch: Scratch, *, progress: Progress) -> Iterator[SimulatedQuery]:
    """With a session of its own; the working directory is the scratch folder meanwhile."""
    with _beating(progress), _understood():
        session = start_session(folder=scratch.path.parent / "spark", here=scratch.path)
    before = os.getcwd()
    os.chdir(scratch.path)
    try:
        yield SimulatedQuery(contract, scratch, session)
    finally:
        os.chdir(before)
        stop_session(session)


@contextmanager
def _beating(progress: Progress) -> Iterator[None]:
    """Whoever waits for us hears that we live: a first start makes the archive of classes, too."""
    over = threading.Event()

    def beat() -> None:
        progress.step("starting Spark", 0)
        while not over.wait(BEAT_SECONDS):
            progress.step("starting Spark", 0)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# -- real ------------------------------------------------------------------------------------------


def _streaming(record: Record, scratch: Scratch, *, task: Task, progress: Progress) -> ClosureResult | None:
    deadline = Deadline(task.budget_seconds)
    with streaming_laboratory(record.contract, scratch, task=task, progress=progress) as runner:
        base = runner.run(())
        _take(record, base, ())
        if base.why_not or base.ending.failure:
            record.unknowns += [base.why_not or f"without any fault, {base.ending.failure}"]
            return None
        experiments = base.experiments()
        record.in_bound = len(experiments) + 1
        for number, fault in enumerate(experiments):
            if deadline.over and number >= EXPERIMENTS_LEAST:
                record.notes.append(f"the budget ended before {fault} and what follows it")
                break
            _take(record, runner.run((fault,)), (fault,))
    return None


def _take(record: Record, done: Experiment, faults: tuple[Fault, ...]) -> None:
    record.kills += done.kills
    record.lines_known |= done.lines_known
    record.passed |= set(done.passed)
    if done.why_not:
        record.unknowns.append(f"{Schedule(faults)} came to no result: {done.why_not}")
        return
    record.runs += 1
    record.rows += len(done.ending.committed)
    if len(done.struck) < len(faults):
        record.missed(faults[-1])
        return
    anomalies = [each for each in done.ending.anomalies(record.contract.rows) if each.oracle != EARLY]
    record.crashed(faults, wrong=record.find(anomalies, Schedule(faults), line=done.line))


@contextmanager
def streaming_laboratory(
    contract: Contract, scratch: Scratch, *, task: Task, progress: Progress
) -> Iterator[StreamingLaboratory]:
    with _understood():
        runner = StreamingLaboratory(contract, scratch, hang_seconds=task.hang_seconds, progress=progress)
    try:
        yield runner
    finally:
        runner.close()


# -- both ------------------------------------------------------------------------------------------

SHELLS: dict[str, Callable[..., ClosureResult | None]] = {"simulated": _simulated, "spark": _streaming}


@contextmanager
def _place(contract: Contract, task: Task, *, progress: Progress) -> Iterator[Scratch]:
    """A folder for everything, and the scratch in it."""
    shell, services = task.shell, ServicesInUse(options=task.services, report=lambda what: progress.step(what, 0))
    if shell not in SHELLS:
        raise ContractError(f"{contract.locator}: a foreachBatch function runs --on {' or '.join(SHELLS)}, not {shell}")
    folder = fresh_folder()
    try:
        path = Path(folder, "scratch")
        path.mkdir()
        yield Scratch(name=f"{contract.name}-{shell}", path=path, shell=shell, services=services)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except SparkUnavailable as error:
        raise ContractError(str(error)) from error


def _trial(
    contract: Contract,
    schedule: Schedule,
    ending: Ending,
    *,
    struck: tuple[Fault, ...],
    line: SourceLine | None,
    trail: list[tuple[int, str, int]],
    kills: int = 0,
) -> RunResult:
    history: list[tuple[Any, ...]] = []
    for at, (start, point, batch) in enumerate(trail):
        history.append((at, f"batch {batch}", start, point, None))
        ahead = trail[at + 1][0] if at + 1 < len(trail) else start
        if ahead != start and start < len(struck):
            history.append((at, COORDINATOR, start, struck[start].point, struck[start].kind))
    return RunResult(
        schedule=schedule,
        struck=struck,
        anomalies=ending.anomalies(contract.rows),
        trace=[],
        names=(COORDINATOR,),
        history=history,
        finished=not ending.failure,
        failure=ending.failure,
        rows_committed=len(ending.committed),
        rows_committed_after=len(ending.committed),
        log="\n".join(f"run {start}, batch {batch}: {point}" for start, point, batch in trail).encode(),
        struck_line=line,
        unreadable=ending.unreadable,
        kills=kills,
    )
