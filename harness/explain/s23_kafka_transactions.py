"""S23: resumed, lingering, reused and marked transactions, on a small simulation of a Kafka broker."""

from __future__ import annotations

from typing import Any, Final

from sinkproof.execution.recorded_job import RecordedRun, letters, record_job
from sinkproof.explain.demonstration import Scene, counts_named, rows_named
from sinkproof.explain.models.broker_transactions import PoolOfTwo, ProducerPerTransaction, Transactions, WithoutSweep
from sinkproof.explain.models.simulated_broker import Broker
from sinkproof.explain.small_jobs import slow_upload
from sinkproof.explain.timeline import ENDS, RECOVERY, timeline
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.sink_adapters.protocol import Context
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink

LESSON: Final = (
    "the broker knows a producer id and an epoch, not which of its transactions a handle means. A transactional id for "
    "each transaction makes the two the same, and costs one more request; a marker in the transaction says for ever "
    "whether it was committed; and a transaction left open must be found and aborted, or every reader is blocked."
)
SOURCE: Final = letters("aabbaabb|bbaabbaa")
ROW_COUNT: Final = SOURCE.splits * SOURCE.length(0)
PLAN: Final = source_to_sink(SOURCE, sinks=1).plan()
SIMULATED: Final = "a small simulation of a Kafka broker (transactional ids, epochs, last stable offset)"
SLOW_MS: Final = 60


def scenes() -> tuple[Scene, ...]:
    return (
        _resumed(),
        _lingering(WithoutSweep, "Wrong: an open transaction of a crashed attempt blocks every reader behind it"),
        _lingering(ProducerPerTransaction, "Right: it is found and aborted"),
        _reused(PoolOfTwo, "Wrong, on purpose: a pool of two producers; recovery commits a later transaction"),
        _reused(ProducerPerTransaction, "Right: a transactional id for each transaction"),
        _marked(),
        _cost(),
    )


def _run(transactions: Transactions, **options: Any) -> tuple[RecordedRun, Broker]:
    broker = Broker()
    run = record_job(
        PLAN, lambda: TwoPhaseCommitSink(transactions(broker)), read=broker.read, probe=broker.open_ids, **options
    )
    return run, broker


def _resumed() -> Scene:
    run, broker = _run(ProducerPerTransaction, schedule="checkpoint.notify#2=kill-job")
    names = run.seen.probed_at_fault[0]
    first = next(each.at_ms for each in run.points("commit.after") if each.at_ms > run.crash_ms)
    committed = sorted(set(names) & set(broker.markers()))
    scene = Scene("A transaction is committed by another process, by producer id and epoch")
    scene.ran = f"2 sources -> two-phase sink into {SIMULATED}; {run.schedule}"
    scene.steps = timeline(run, *RECOVERY, points=ENDS, since=run.crash_ms - 3, until=first + 1)
    scene.fact(f"open at the crash: {', '.join(names)}", names)
    scene.check("a covered transaction is committed by a process that did not begin it", True, bool(committed))
    scene.check("not every open transaction was covered", True, len(committed) < len(names))
    scene.check_each_row_once(run)
    return scene.finish(
        f"the next process commits {', '.join(committed)} and aborts the others; {len(run.visible)} rows are "
        "read, each once"
    )


def _lingering(transactions: Transactions, title: str) -> Scene:
    run, broker = _run(transactions, schedule="sink[0].write.after#6=kill-job")
    right = transactions is ProducerPerTransaction
    lost, repeated = run.lost_and_repeated
    everything, still_open = set(broker.read(committed=False)), broker.open_ids()
    stable, end = broker.last_stable_offset(0), len(broker.logs[0])
    scene = Scene(title)
    scene.ran = f"the same job, {run.schedule}"
    scene.fact(f"open when the job has ended: {', '.join(still_open) or 'none'}", still_open)
    scene.fact(f"last stable offset {stable} of {end}", [stable, end])
    scene.check("every row is in the log", ROW_COUNT, len(everything))
    scene.check("no transaction is left open" if right else "a transaction is left open", right, not still_open)
    scene.check("readers get everything" if right else "readers are blocked", right, not lost)
    scene.check("no row is repeated", [], repeated)
    return scene.finish(
        f"a reader of committed rows gets {len(run.visible)} of {len(everything)}: "
        + (f"the rows behind offset {stable} are blocked" if lost else "no transaction blocks it")
    )


def _reused(transactions: Transactions, title: str) -> Scene:
    """Checkpoint 1 is complete and committed, 2 is slow, and rows of 3 are written with the producer of 1."""
    right = transactions is ProducerPerTransaction
    slow = slow_upload("sink[0]", SLOW_MS, checkpoint_id=2)
    run, _ = _run(transactions, schedule="sink[0].write.after#10=kill-job", before=slow)
    complete = run.complete_at_crash
    restored = run.offsets(complete[-1])
    beyond = sorted(row for row in run.rows_written(generation=1) if row[1] >= restored[row[0]])
    lost, repeated = run.lost_and_repeated
    scene = Scene(title)
    scene.ran = f"the same job, persisting checkpoint 2 takes {SLOW_MS} ms, {run.schedule}"
    points, actors = ("begin.after", *ENDS), ("coordinator", "sink")
    scene.steps = timeline(run, "snapshot", *RECOVERY, points=points, actors=actors, since=10, until=run.crash_ms + 12)
    scene.fact(f"complete at the crash: {complete}, covering {restored}; written beyond: {rows_named(beyond)}", beyond)
    scene.check("rows beyond the checkpoint were open at the crash", True, bool(beyond))
    scene.check("they are not repeated" if right else "some of them are repeated", right, not repeated)
    scene.check("no other row is repeated", [], sorted(set(repeated) - set(beyond)))
    scene.check("no row is lost", [], lost)
    return scene.finish(
        f"recovery commits checkpoint {complete[-1]} once more: "
        + (
            f"and so the rows of a later one; {rows_named(repeated)} are there twice"
            if repeated
            else "it was committed already, nothing changes"
        )
    )


def _marked() -> Scene:
    """The handle is committed again when the broker has expired the transactional id."""
    found = {}
    for name, marked in (("with a marker", True), ("without", False)):
        broker = Broker()
        target = ProducerPerTransaction(broker)
        target.attach(Context())
        transaction = Transaction.of(Owner("sink", 0, 1), 1, 1)
        target.begin(transaction)
        target.write(transaction, SOURCE.batch(0, 0))
        handle = target.pre_commit(transaction) if marked else list(target.producers[transaction])
        outcomes = [target.commit(handle), target.commit(handle)]
        broker.expire_ids()
        found[name] = [outcome.value for outcome in (*outcomes, target.commit(handle))]
    scene = Scene("A marker in the transaction makes commit idempotent for ever")
    scene.ran = "one transaction: committed, committed again, and again when its transactional id has expired"
    for name, values in found.items():
        scene.fact(f"{name}: {', '.join(values)}", values)
    scene.check("with a marker", ["committed", "already", "already"], found["with a marker"])
    scene.check("without, it cannot be distinguished from a loss", ["committed", "already", "lost"], found["without"])
    return scene.finish(
        f"once the id has expired the answer is {found['with a marker'][-1]!r} with a marker, and "
        f"{found['without'][-1]!r} without, although the rows are there"
    )


def _cost() -> Scene:
    """Requests to the broker for the same rows."""
    each, pool = (_run(one)[1].requests for one in (ProducerPerTransaction, PoolOfTwo))
    transactions = each["EndTxn"]
    scene = Scene("What it costs")
    scene.ran = "the same job without a crash, requests counted by the broker"
    for name, counts in (("a producer for each transaction", each), ("a pool of two", pool)):
        scene.fact(f"{name}: {counts_named(counts)}", dict(counts))
    scene.check("a request for each transaction's producer", transactions, each["InitProducerId"])
    scene.check("two for the pool", 2, pool["InitProducerId"])
    scene.check("a marker for each transaction", ROW_COUNT + transactions, each["Produce"])
    return scene.finish(
        f"for {transactions} transactions and {ROW_COUNT} rows: {each['InitProducerId'] - pool['InitProducerId']} "
        f"requests more for producers and {each['Produce'] - pool['Produce']} for markers, that is "
        f"{(sum(each.values()) - sum(pool.values())) / transactions:g} for each transaction"
    )
