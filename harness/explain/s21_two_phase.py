"""S21: the calls of a two-phase sink, its user context in the snapshot, and the effect of a transaction timeout."""

from __future__ import annotations

import json
from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun
from sinkproof.explain.demonstration import Scene, counts_named, rows_named
from sinkproof.explain.small_jobs import LETTERS, MemoryTarget, collected_warnings, run_job, slow_upload
from sinkproof.explain.timeline import ENDS, RECOVERY, timeline
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.memory.memory_clients import MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, TransactionLost
from sinkproof.sink_adapters.strategies.ownership_and_names import Transaction
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "the handle in the checkpoint is the promise: the attempt that restores it commits it. The target must do its "
    "part: a transaction that times out before recovery commits it is lost, and then the job reports it and fails."
)
TIMEOUT_SECONDS: Final = 10.0
SLOW_MS: Final = 8_500
FIRST_SINK: Final = ("coordinator", "sink[0]")


class RecordingTarget(MemoryTarget):
    """Its transactions record their calls; each subtask has a user context."""

    def __init__(self) -> None:
        super().__init__(make=lambda store: TwoPhaseCommitSink(RecordingTransactions(store, self)))
        self.calls: dict[str, list[str]] = {}  # of each transaction, without repetition
        self.contexts_made: list[str] = []
        self.contexts_used: list[list[str]] = []  # in each open

    def record(self, call: str, transaction: Any) -> None:
        name = transaction.decode() if isinstance(transaction, bytes) else str(transaction)
        calls = self.calls.setdefault(name, [])
        if call not in calls:
            calls.append(call)


class RecordingTransactions(MemoryTransactions):
    def __init__(self, store: MemoryStore, owner: RecordingTarget) -> None:
        super().__init__(store)
        self.owner = owner

    def begin(self, transaction: Transaction) -> None:
        self.owner.record("begin", transaction)
        super().begin(transaction)

    def write(self, transaction: Transaction, batch: Batch) -> None:
        self.owner.record("write", transaction)
        super().write(transaction, batch)

    def pre_commit(self, transaction: Transaction) -> bytes:
        self.owner.record("pre_commit", transaction)
        return super().pre_commit(transaction)

    def commit(self, handle: bytes) -> CommitOutcome:
        self.owner.record("commit", handle)
        return super().commit(handle)

    def abort(self, transaction: Any) -> None:
        self.owner.record("abort", transaction)
        super().abort(transaction)

    def new_user_context(self) -> dict[str, str]:
        self.owner.contexts_made.append(f"pool {len(self.owner.contexts_made) + 1}")
        return {"pool": self.owner.contexts_made[-1]}

    def use_user_contexts(self, contexts: list[dict[str, str]]) -> None:
        self.owner.contexts_used.append([context["pool"] for context in contexts])


def scenes() -> tuple[Scene, ...]:
    return (_calls(), _user_context(), _several_pending(), _warned(), _lost())


def _calls() -> Scene:
    """A crash with one transaction open and one pre-committed: recovery commits the latter and aborts the former."""
    target = RecordingTarget()
    run = run_job(target=target, schedule="sink[0].notify_complete.before#1=kill")
    calls = {name: of for name, of in target.calls.items() if name.startswith("sink-0-")}
    first = next(iter(calls))
    scene = Scene("begin, write, pre_commit, commit, abort; recover_and_commit, recover_and_abort")
    scene.ran = f"source x2 -> two-phase sink x2 into memory, {run.schedule}"
    scene.steps = timeline(run, "snapshot", *RECOVERY, points=ENDS, actors=FIRST_SINK, until=60)
    for name, of in calls.items():
        scene.fact(f"{name}: {', '.join(of)}", of)
    scene.check("every transaction ends, one way or the other", {"commit", "abort"}, {of[-1] for of in calls.values()})
    scene.check(
        "the pre-committed one is committed by the next attempt",
        ["begin", "write", "pre_commit", "commit"],
        calls[first],
    )
    scene.check_each_row_once(run)
    return scene.finish(
        f"{first}, which was pre-committed before the crash, ends with {calls[first][-1]}; the transactions "
        "that the crashed attempt had begun after it are aborted, and their rows replayed"
    )


def _user_context() -> Scene:
    """One subtask is restored from the state of two: it keeps its own context and gets the other's as well."""
    target = RecordingTarget()
    run = run_job(target=target, later=source_to_sink(LETTERS, sinks=1).plan(), schedule="checkpoint.notify#1=kill-job")
    made, used = target.contexts_made, target.contexts_used
    scene = Scene("A user context is made once for each subtask, and survives a restore")
    scene.ran = f"the same job, {run.schedule}, then one sink subtask instead of two"
    scene.fact(f"made: {', '.join(made)}", made)
    scene.fact(f"used in each open: {used}", used)
    scene.check("made once for each subtask", 2, len(made))
    scene.check("the remaining subtask has its own, then that of the removed one", made, used[-1])
    return scene.finish(
        f"{len(used)} times a sink was opened, {len(made)} contexts were made; the last one has {used[-1]}"
    )


def _several_pending() -> Scene:
    target = MemoryTarget()
    run = run_job(target=target, probe=lambda: sorted(target.store.prepared), schedule="checkpoint.notify#3=kill-job")
    pending = [entry[2] for entry in json.loads(run.record(2).states["sink[0]"]["sink"])["pending"]]
    prepared = run.seen.probed_at_fault[0]
    committed = [name for name in pending if name in target.store.committed]
    scene = Scene("Several transactions may be pending at once")
    scene.ran = f"the same job with up to 3 concurrent checkpoints, {run.schedule}"
    scene.steps = timeline(run, "snapshot", *RECOVERY, points=ENDS, actors=FIRST_SINK, until=run.crash_ms + 6)
    scene.fact(f"the snapshot of sink[0] in checkpoint 2 lists {', '.join(pending)}", pending)
    scene.fact(f"pre-committed in the target at the crash: {', '.join(prepared)}", prepared)
    scene.check("more than one is listed", True, len(pending) > 1)
    scene.check("all of them are committed", pending, committed)
    scene.check_each_row_once(run)
    return scene.finish(
        f"of the {len(pending)} listed all {len(committed)} are committed in the end, oldest first; newer ones "
        "are aborted"
    )


# -- timeouts -------------------------------------------------------------------------------------


def _expiring(store: MemoryStore) -> TwoPhaseCommitSink:
    """Into a target that aborts transactions which are open for longer than TIMEOUT_SECONDS."""
    return TwoPhaseCommitSink(MemoryTransactions(store, transaction_timeout=TIMEOUT_SECONDS))


def _with_timeout(**options: Any) -> tuple[RecordedRun, MemoryTarget, list[str]]:
    target = MemoryTarget(make=_expiring)
    with collected_warnings() as warnings:
        run = run_job(target=target, max_concurrent_checkpoints=9, **options)
    return run, target, [warning.getMessage() for warning in warnings]


def _warned() -> Scene:
    run, _, messages = _with_timeout(before=slow_upload("sink[1]", SLOW_MS))
    first = messages[0] if messages else "nothing"
    scene = Scene("A slow checkpoint, complete just in time: a warning")
    scene.ran = (
        f"the same job without a crash; transactions time out after {TIMEOUT_SECONDS:g} s, persisting takes "
        f"{SLOW_MS} ms"
    )
    scene.fact(f"{len(messages)} warnings; the first: {first}", messages)
    scene.check("the warning precedes the timeout", True, "has been pending for" in first)
    scene.check_each_row_once(run)
    return scene.finish(f"{len(run.visible)} rows are visible, each once: the loss that was warned of did not happen")


def _lost() -> Scene:
    delay_ms = 1200 * TIMEOUT_SECONDS
    run, target, _ = _with_timeout(
        schedule="sink[0].notify_complete.before#1=kill", restart=lambda: FixedDelay(attempts=2, delay=delay_ms)
    )
    decided = run.seen.decided[0].checkpoint_id
    covered = run.covered(decided)
    lost = sorted(set(covered) - set(run.visible))
    errors = [each.detail for each in run.of("raised")]
    left = {"open": len(target.store.opened), "pre-committed": len(target.store.prepared)}
    scene = Scene("Recovery comes after the timeout: a stated loss")
    scene.ran = f"the same job, {run.schedule}, restart after {delay_ms:g} ms"
    scene.steps = timeline(run, *RECOVERY, "raised", actors=FIRST_SINK)
    scene.fact(f"checkpoint {decided} is complete and covers {rows_named(covered)}", covered)
    scene.fact(f"visible: {rows_named(run.visible)}; in the target: {counts_named(left)}", run.visible)
    scene.check("rows of a complete checkpoint are lost", True, bool(lost))
    scene.check("the job fails rather than continue without them", False, run.simulation.finished)
    scene.check(
        "every restart reports the loss",
        True,
        bool(errors) and all(TransactionLost.__name__ in error for error in errors),
    )
    return scene.finish(
        f"{rows_named(lost)} of a complete checkpoint are gone, and the job ends with: {run.simulation.failure}"
    )
