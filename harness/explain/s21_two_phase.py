"""S21: the calls of a two-phase sink, what survives in its state, and what a timeout does to it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sinkproof.execution.recorded_job import Run, WatchedSimulation, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, rows_named
from sinkproof.explain.small_jobs import Transactional
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.memory.memory_clients import MemoryTransactions
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, TransactionLost
from sinkproof.sink_adapters.strategies.ownership_and_names import Transaction
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "the handle in the checkpoint is the promise: whoever restores it commits it. The target must keep its side: a "
    "transaction that it times out before recovery commits it is lost, and then the job says so and fails."
)
SOURCE: Final = letters("aebgaebg|gabegabe")
TIMEOUT_SECONDS: Final = 10.0
SLOW_MS: Final = 8_500
CALLS: Final = ("begin", "write", "pre_commit", "commit", "abort")


class Watched(MemoryTransactions):
    """The target, with a list of what it was asked for, and a user context for each subtask."""

    def __init__(self, store: MemoryStore, asked: list[tuple[str, str]], contexts: list[Any]) -> None:
        super().__init__(store)
        self.asked, self.contexts = asked, contexts

    def begin(self, transaction: Transaction) -> None:
        self.asked.append(("begin", str(transaction)))
        super().begin(transaction)

    def write(self, transaction: Transaction, batch: Batch) -> None:
        self.asked.append(("write", str(transaction)))
        super().write(transaction, batch)

    def pre_commit(self, transaction: Transaction) -> bytes:
        self.asked.append(("pre_commit", str(transaction)))
        return super().pre_commit(transaction)

    def commit(self, handle: bytes) -> CommitOutcome:
        self.asked.append(("commit", handle.decode()))
        return super().commit(handle)

    def abort(self, transaction: Any) -> None:
        self.asked.append(("abort", transaction.decode() if isinstance(transaction, bytes) else str(transaction)))
        super().abort(transaction)

    def new_user_context(self) -> dict[str, str]:
        name = f"pool {len([made for made in self.contexts if made[0] == 'new']) + 1}"
        self.contexts.append(("new", name))
        return {"pool": name}

    def use_user_contexts(self, contexts: list[dict[str, str]]) -> None:
        self.contexts.append(("use", [context["pool"] for context in contexts]))


def scenes() -> tuple[Scene, ...]:
    return (_calls(), _user_context(), _several_pending(), _warned(), _lost())


def _watched(schedule: str, *, sinks_later: int = 0) -> tuple[Run, list[tuple[str, str]], list[Any]]:
    store = MemoryStore()
    asked: list[tuple[str, str]] = []
    contexts: list[Any] = []
    run = play(
        source_to_sink(SOURCE).plan(),
        lambda: TwoPhaseCommitSink(Watched(store, asked, contexts)),
        read=store.read,
        schedule=schedule,
        later=source_to_sink(SOURCE, sinks=sinks_later).plan() if sinks_later else None,
    )
    return run, asked, contexts


def _calls() -> Scene:
    """A death with one transaction open and one pre-committed: recovery commits the one and aborts the other."""
    run, asked, _ = _watched("sink[0].notify_complete.before#1=kill")
    life: dict[str, list[str]] = {}
    for call, name in asked:
        life.setdefault(name, []).append(call)
    short = {name: list(dict.fromkeys(calls)) for name, calls in life.items() if name.startswith("sink-0-")}
    ends = {calls[-1] for calls in short.values()}
    first = next(iter(short))
    return Scene(
        title="begin, write, pre_commit, commit, abort; recover_and_commit, recover_and_abort",
        ran="source x2 -> two-phase sink x2 into memory, sink[0].notify_complete.before#1=kill",
        steps=run.steps(
            "snapshot",
            "complete",
            "generation",
            "restored",
            points=["commit.after", "abort.after"],
            actors=("coordinator", "sink[0]"),
            until=60,
        ),
        facts=tuple(fact(f"{name}: {', '.join(calls)}", calls) for name, calls in short.items()),
        outcome=f"{first}, which was pre-committed before the death, ends with {short[first][-1]}; what the dead had "
        "begun beyond it is aborted and replayed",
        checks=(
            check("every transaction ends, one way or the other", {"commit", "abort"}, ends),
            check(
                "the promised one is committed by its successor",
                ["begin", "write", "pre_commit", "commit"],
                short[first],
            ),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )


def _user_context() -> Scene:
    """One subtask takes over from two: it keeps its own, and gets the other's as well."""
    run, _, contexts = _watched("checkpoint.notify#1=kill-job", sinks_later=1)
    made = [name for what, name in contexts if what == "new"]
    used = [names for what, names in contexts if what == "use"]
    return Scene(
        title="A user context is made once for each subtask, and survives",
        ran=f"the same job, {run.schedule}, then one sink subtask instead of two",
        facts=(
            fact(f"made: {', '.join(made)}", made),
            fact(f"used in each open: {used}", used),
        ),
        outcome=f"{len(used)} times a sink was opened, {len(made)} contexts were made; the last one has {used[-1]}",
        checks=(
            check("made once for each subtask", 2, len(made)),
            check("the survivor has its own, then the one it took over", made, used[-1]),
        ),
    )


def _several_pending() -> Scene:
    target = Transactional()
    run = play(
        source_to_sink(SOURCE).plan(),
        target.sink,
        read=target.read,
        look=lambda: sorted(target.store.prepared),
        schedule="checkpoint.notify#3=kill-job",
    )
    record = next(record for record in run.stage.decided if record.checkpoint_id == 2)
    pending = [entry[2] for entry in json.loads(record.states["sink[0]"]["sink"])["pending"]]
    prepared = run.stage.looked_when_struck[0]
    committed = [name for name in pending if name in target.store.committed]
    return Scene(
        title="Several transactions may be pending at once",
        ran=f"the same job with up to 3 concurrent checkpoints, {run.schedule}",
        steps=run.steps(
            "snapshot",
            "complete",
            "generation",
            "restored",
            points=["commit.after", "abort.after"],
            actors=("coordinator", "sink[0]"),
            until=run.of("fault")[0].at_ms + 6,
        ),
        facts=(
            fact(f"the snapshot of sink[0] in checkpoint 2 lists {', '.join(pending)}", pending),
            fact(f"pre-committed in the target at the crash: {', '.join(prepared)}", prepared),
        ),
        outcome=f"of the {len(pending)} listed all {len(committed)} are committed in the end, oldest first; the newer "
        "are aborted",
        checks=(
            check("more than one is listed", True, len(pending) > 1),
            check("all of them are committed", pending, committed),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )


def run_states(target: Transactional) -> dict[str, int]:
    """What the target holds, by kind."""
    return {"open": len(target.store.opened), "pre-committed": len(target.store.prepared)}


# -- timeouts -------------------------------------------------------------------------------------


@contextmanager
def _log() -> Iterator[list[str]]:
    """What two-phase sinks warn of."""
    said: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    log, handler = logging.getLogger("sinkproof.sink_adapters.strategies.transaction_timeout"), Keeping()
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield said
    finally:
        log.removeHandler(handler)
        log.propagate = propagates


def _with_timeout(*, upload_ms: int = 0, restart_ms: float = 0) -> tuple[Run, Transactional, list[str]]:
    """`upload_ms`: what persisting takes in sink[1]; `restart_ms`: sink[0] dies once, recovery takes so long."""
    target = Transactional()

    def sink() -> TwoPhaseCommitSink:
        return TwoPhaseCommitSink(MemoryTransactions(target.store, transaction_timeout=TIMEOUT_SECONDS))

    def slow(simulation: WatchedSimulation) -> None:
        if upload_ms:
            simulation.latency.upload[simulation.names.index("sink[1]")] = upload_ms

    with _log() as said:
        run = play(
            source_to_sink(SOURCE).plan(),
            sink,
            read=target.read,
            schedule="sink[0].notify_complete.before#1=kill" if restart_ms else "no-fault",
            restart=lambda: FixedDelay(attempts=2, delay=restart_ms),
            before=slow,
            max_concurrent_checkpoints=9,
        )
    return run, target, said


def _warned() -> Scene:
    run, _, said = _with_timeout(upload_ms=SLOW_MS)
    first = said[0] if said else "nothing"
    return Scene(
        title="A slow checkpoint, complete just in time: a warning",
        ran=f"the same job without a crash; transactions time out after {TIMEOUT_SECONDS:g} s, persisting takes "
        f"{SLOW_MS} ms",
        facts=(fact(f"it warns {len(said)} times; first: {first}", said),),
        outcome=f"{len(run.visible)} rows are visible, each once: it was warned of, and did not happen",
        checks=(
            check("it warns before the timeout", True, "has been pending for" in first),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )


def _lost() -> Scene:
    delay = 1200 * TIMEOUT_SECONDS
    run, target, _ = _with_timeout(restart_ms=delay)
    record = run.stage.decided[0]
    covered = sorted((split, at) for split, end in run.simulation.covered(record).items() for at in range(end))
    lost = sorted(set(covered) - set(run.visible))
    errors = [each.detail for each in run.of("raised")]
    after = run_states(target)
    return Scene(
        title="Recovery comes after the timeout: a stated loss",
        ran=f"the same job, {run.schedule}, restart after {delay:g} ms",
        steps=run.steps("complete", "generation", "restored", "raised", actors=("coordinator", "sink[0]")),
        facts=(
            fact(f"checkpoint {record.checkpoint_id} is complete and covers {rows_named(covered)}", covered),
            fact(f"visible: {rows_named(run.visible)}; in the target: {counts_named(after)}", run.visible),
        ),
        outcome=f"{rows_named(lost)} of a complete checkpoint are gone, and the job ends with: "
        f"{run.simulation.failure}",
        checks=(
            check("rows of a complete checkpoint are lost", True, bool(lost)),
            check("the job fails rather than go on without them", False, run.simulation.finished),
            check(
                "it names the loss, each time it tries",
                True,
                bool(errors) and all(TransactionLost.__name__ in error for error in errors),
            ),
        ),
    )
