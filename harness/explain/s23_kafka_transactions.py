"""S23: on a small simulation of a Kafka broker (simulated_broker.py): transactions resumed, lingering, reused, marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from sinkproof.execution.recorded_job import Run, WatchedSimulation, letters, once_each, play
from sinkproof.explain.demonstration import Scene, check, counts_named, fact, rows_named
from sinkproof.explain.models.simulated_broker import MARKER, Broker, Producer
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "the broker knows a producer id and an epoch, not which of its transactions you mean. A transactional id for each "
    "transaction makes the two the same, and costs a request more; a marker in the transaction says for ever whether "
    "it was committed; and what is left open must be found and aborted, or nobody reads on."
)
SOURCE: Final = letters("aabbaabb|bbaabbaa")
SIMULATED: Final = "a small simulation of a Kafka broker (transactional ids, epochs, last stable offset)"
SLOW_MS: Final = 60


class ProducerEach:
    """A transactional id for each transaction, and a marker in it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.producers: dict[str, Producer] = {}

    def attach(self, context: Context) -> None:
        self.subtask = context.subtask

    def begin(self, transaction: Transaction) -> None:
        self.producers[transaction] = self.broker.init_producer(transaction)

    def write(self, transaction: Transaction, batch: Batch) -> None:
        for row in batch:
            self.broker.produce(self.producers[transaction], row[:2], partition=self.subtask)

    def pre_commit(self, transaction: Transaction) -> list[Any]:
        self.broker.produce(self.producers[transaction], (MARKER, str(transaction)), partition=self.subtask)
        return list(self.producers.pop(transaction))

    def commit(self, handle: list[Any]) -> CommitOutcome:
        """If the broker has forgotten the id, the marker still tells."""
        outcome = self.broker.end(Producer(*handle), "commit")
        if outcome is CommitOutcome.LOST and handle[0] in self.broker.markers():
            return CommitOutcome.ALREADY
        return outcome

    def fence(self, owner: Owner, generation: int) -> None:
        """Nothing yet: the sweep of what lingers fences, because asking for an id anew raises its epoch."""

    def lingering(self, owner: Owner, before_generation: int) -> list[Any]:
        names = [Transaction.parse(name) for name in self.broker.open_ids()]
        left = [name for name in names if owner.owns(name.subtask) and name.generation < before_generation]
        return [list(self.broker.known[name].producer) for name in left]

    def abort(self, transaction: Any) -> None:
        self.broker.init_producer(transaction[0] if isinstance(transaction, list) else transaction)


class Pooled(ProducerEach):
    """Two producers that take turns, each with one transactional id and one epoch: the reuse defect."""

    def attach(self, context: Context) -> None:
        super().attach(context)
        names = [f"{context.sink_id}-{context.subtask}-pool-{number}" for number in (1, 2)]
        known = [self.broker.known.get(name) for name in names]
        # Asking for the ids anew would abort what is to be committed; so the epochs are taken over as they are.
        self.pool = [
            one.producer if one else self.broker.init_producer(name) for one, name in zip(known, names, strict=True)
        ]

    def begin(self, transaction: Transaction) -> None:
        self.producers[transaction] = self.pool[0]
        self.pool.reverse()

    def pre_commit(self, transaction: Transaction) -> list[Any]:
        return list(self.producers.pop(transaction))

    def commit(self, handle: list[Any]) -> CommitOutcome:
        return self.broker.end(Producer(*handle), "commit")

    def lingering(self, owner: Owner, before_generation: int) -> list[Any]:
        mine = [name for name in self.broker.open_ids() if name.split("-")[1] == str(owner.subtask)]
        return [list(self.broker.known[name].producer) for name in mine]

    def abort(self, transaction: Any) -> None:
        self.broker.end(Producer(*transaction), "abort")


class SweepsNothing(ProducerEach):
    """Does not look for what earlier attempts left open."""

    def lingering(self, owner: Owner, before_generation: int) -> list[Any]:
        return []


def scenes() -> tuple[Scene, ...]:
    return (
        _resumed(),
        _lingering(SweepsNothing, "Wrong: an open transaction of a dead attempt blocks every reader behind it"),
        _lingering(ProducerEach, "Right: it is found and aborted"),
        _reused(Pooled, "Wrong, on purpose: a pool of two producers, whose recovery commits a later transaction"),
        _reused(ProducerEach, "Right: a transactional id for each transaction"),
        _marked(),
        _cost(),
    )


def _run(make: Callable[[Broker], ProducerEach], schedule: str, **options: Any) -> tuple[Run, Broker]:
    sinks = options.pop("sinks", 1)
    broker = Broker(partitions=sinks)
    run = play(
        source_to_sink(SOURCE, sinks=sinks).plan(),
        lambda: TwoPhaseCommitSink(make(broker)),
        read=broker.read,
        look=lambda: (broker.open_ids(), broker.read(committed=False), dict(broker.known)),
        schedule=schedule,
        **options,
    )
    return run, broker


def _resumed() -> Scene:
    run, broker = _run(ProducerEach, "checkpoint.notify#2=kill-job")
    names, _, _ = run.stage.looked_when_struck[0]
    crash = run.of("fault")[0].at_ms
    first = next(each.at_ms for each in run.points("commit.after") if each.at_ms > crash)
    committed = sorted(set(names) & set(broker.markers()))
    return Scene(
        title="A transaction is committed by another process, by producer id and epoch",
        ran=f"2 sources -> two-phase sink into {SIMULATED}; {run.schedule}",
        steps=run.steps(
            "complete",
            "generation",
            "restored",
            points=["commit.after", "abort.after"],
            since=crash - 3,
            until=first + 1,
        ),
        facts=(fact(f"open at the crash: {', '.join(names)}", names),),
        outcome=f"the next process commits {', '.join(committed)} and aborts the others; {len(run.visible)} rows are "
        "read, each once",
        checks=(
            check("what was promised is committed by a process that did not begin it", True, bool(committed)),
            check("not all that was open was promised", True, len(committed) < len(names)),
            check("nothing is lost or repeated", ([], []), once_each(SOURCE, run.visible)),
        ),
    )


def _lingering(make: Callable[[Broker], ProducerEach], title: str) -> Scene:
    run, broker = _run(make, "sink[0].write.after#6=kill-job")
    right = make is ProducerEach
    lost, extra = once_each(SOURCE, run.visible)
    everything = set(broker.read(committed=False))
    stuck = broker.open_ids()
    stable, end = broker.last_stable_offset(0), len(broker.logs[0])
    return Scene(
        title=title,
        ran=f"the same job, {run.schedule}",
        facts=(
            fact(f"open when the job has ended: {', '.join(stuck) or 'none'}", stuck),
            fact(f"last stable offset {stable} of {end}", [stable, end]),
        ),
        outcome=f"a reader of committed rows gets {len(run.visible)} of {len(everything)}: "
        + (f"everything behind offset {stable} waits" if lost else "nothing is in its way"),
        checks=(
            check("every row is in the log", SOURCE.splits * SOURCE.length(0), len(everything)),
            check("nothing is left open" if right else "something is left open", right, not stuck),
            check("readers get everything" if right else "readers are stuck", right, not lost),
            check("nothing is repeated", [], extra),
        ),
    )


def _reused(make: Callable[[Broker], ProducerEach], title: str) -> Scene:
    """Checkpoint 1 is complete and committed; 2 is slow; rows of 3 go into the producer that 1 had."""

    class SlowSecond(MemoryCheckpointStorage):
        def store(self, checkpoint_id: int, subtask: str, states: dict[str, Any]) -> Any:
            if checkpoint_id == 2:
                uploads[0].latency.upload[uploads[0].names.index("sink[0]")] = SLOW_MS
            return super().store(checkpoint_id, subtask, states)

    uploads: list[WatchedSimulation] = []
    right = make is ProducerEach
    run, _ = _run(make, "sink[0].write.after#10=kill-job", storage=SlowSecond(), before=uploads.append)
    crash = run.of("fault")[0].at_ms
    complete = [each.detail for each in run.of("complete") if each.at_ms <= crash]
    restored = run.simulation.covered(next(one for one in run.stage.decided if one.checkpoint_id == complete[-1]))
    beyond = sorted(row for row in run.rows_written(generation=1) if row[1] >= restored[row[0]])
    lost, extra = once_each(SOURCE, run.visible)
    return Scene(
        title=title,
        ran=f"the same job, persisting checkpoint 2 takes {SLOW_MS} ms, {run.schedule}",
        steps=run.steps(
            "snapshot",
            "complete",
            "generation",
            "restored",
            points=["begin.after", "commit.after", "abort.after"],
            actors=("coordinator", "sink"),
            since=10,
            until=crash + 12,
        ),
        facts=(
            fact(
                f"complete at the crash: {complete}, covering {restored}; written beyond: {rows_named(beyond)}", beyond
            ),
        ),
        outcome=f"recovery commits checkpoint {complete[-1]} once more: "
        + (
            f"and so the rows of a later one; {rows_named(extra)} are there twice"
            if extra
            else "it was done, nothing changes"
        ),
        checks=(
            check("rows beyond the checkpoint were open at the crash", True, bool(beyond)),
            check("they are not repeated" if right else "some of them are repeated", right, not extra),
            check("only they are", [], sorted(set(extra) - set(beyond))),
            check("nothing is lost", [], lost),
        ),
    )


def _marked() -> Scene:
    """The handle is asked for again when the broker has forgotten the transactional id."""
    found = {}
    for name, marked in (("with a marker", True), ("without", False)):
        broker = Broker()
        target = ProducerEach(broker)
        target.attach(Context())
        transaction = Transaction.of(Owner("sink", 0, 1), 1, 1)
        target.begin(transaction)
        target.write(transaction, SOURCE.batch(0, 0))
        handle = target.pre_commit(transaction) if marked else list(target.producers[transaction])
        first = target.commit(handle)
        again = target.commit(handle)
        broker.expire_ids()
        found[name] = [outcome.value for outcome in (first, again, target.commit(handle))]
    return Scene(
        title="A marker in the transaction makes commit idempotent for ever",
        ran="one transaction, by hand: committed, committed again, and again when its transactional id has expired",
        facts=tuple(fact(f"{name}: {', '.join(outcomes)}", outcomes) for name, outcomes in found.items()),
        outcome=f"once the id has expired the answer is {found['with a marker'][-1]!r} with a marker, and "
        f"{found['without'][-1]!r} without, although the rows are there",
        checks=(
            check("with a marker", ["committed", "already", "already"], found["with a marker"]),
            check("without, it cannot be told from a loss", ["committed", "already", "lost"], found["without"]),
        ),
    )


def _cost() -> Scene:
    """What the broker is asked, for the same rows."""
    asked: dict[str, Counter[str]] = {}
    for name, make in (("a producer for each transaction", ProducerEach), ("a pool of two", Pooled)):
        _, broker = _run(make, "no-fault")
        asked[name] = broker.requests
    each, pool = asked.values()
    transactions, rows = each["EndTxn"], SOURCE.splits * SOURCE.length(0)
    return Scene(
        title="What it costs",
        ran="the same job without a crash, requests counted by the broker",
        facts=tuple(fact(f"{name}: {counts_named(counts)}", dict(counts)) for name, counts in asked.items()),
        outcome=f"for {transactions} transactions and {rows} rows: {each['InitProducerId'] - pool['InitProducerId']} "
        f"requests more for producers and {each['Produce'] - pool['Produce']} for markers, that is "
        f"{(sum(each.values()) - sum(pool.values())) / transactions:g} for each transaction",
        checks=(
            check("a request for each transaction's producer", transactions, each["InitProducerId"]),
            check("two for the pool", 2, pool["InitProducerId"]),
            check("a marker for each transaction", rows + transactions, each["Produce"]),
        ),
    )
