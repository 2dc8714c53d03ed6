"""S14: the same rows handed over by a call, through a channel in one process, and over a socket."""

from __future__ import annotations

import socket
from typing import Final

from sinkproof.execution.recorded_job import Identity, letters
from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.small_jobs import linear, run_job
from sinkproof.reference_engine.dataflow.job_graph import JobGraph, Vertex
from sinkproof.reference_engine.dataflow.operators import Map

LESSON: Final = (
    "the job graph decides: equal parallelism and forward edges are chained unless a vertex forbids it. A call costs "
    "nothing, a channel an event, the network bytes; the rows that arrive are the same."
)
SOURCE: Final = letters("aebgae|gabega", batch_rows=2)


def scenes() -> tuple[Scene, ...]:
    return (_chained_or_not(), _network())


def _graph(*, chain: bool = True) -> JobGraph:
    return linear(
        Vertex(name="source", parallelism=2, source=SOURCE, chain=chain),
        Vertex(name="map", parallelism=2, operator=lambda: Map(lambda row: row._replace(value=row.value + "!"))),
        Vertex(name="sink", parallelism=2, sink=True),
    )


def _chained_or_not() -> Scene:
    plans = {
        "chained": _graph().plan(),
        "the source forbids it": _graph(chain=False).plan(),
        "chaining turned off": _graph().plan(chaining=False),
    }
    runs = {name: run_job(plan=plan) for name, plan in plans.items()}
    sent = {name: sum(len(each.detail[1]) for each in run.of("sends")) for name, run in runs.items()}
    total = SOURCE.splits * SOURCE.length(0)
    chained, *others = (sorted(run.rows) for run in runs.values())
    scene = Scene("By a call, or through a channel to another subtask")
    scene.ran = "source x2 -> map x2 -> sink x2, forward; the same graph deployed in three ways"
    for name, plan in plans.items():
        scene.fact(
            f"{name}: {len(plan.subtasks)} subtasks ({', '.join(plan.names[1:])}), {sent[name]} rows through channels",
            [list(plan.names[1:]), sent[name]],
        )
    scene.check("rows through channels", [0, total, 2 * total], list(sent.values()))
    scene.check("the output does not depend on it", [True, True], [rows == chained for rows in others])
    scene.check("no row is lost or repeated", [([], [])] * 3, [run.lost_and_repeated for run in runs.values()])
    return scene.finish(
        f"{total} rows pass {', '.join(str(count // total) for count in sent.values())} channels each, and "
        f"arrive as the same {len(chained)} rows"
    )


def _network() -> Scene:
    """As between two workers: Arrow messages on a socket, barriers in band, flow control by credits."""
    from sinkproof.reference_engine.dataflow.columns import decode, encode
    from sinkproof.reference_engine.shells.spark.channels import (
        BARRIER,
        CREDITS,
        ROWS,
        InChannel,
        OutChannel,
    )
    from sinkproof.reference_engine.shells.spark.peer_authentication import SECRET_BYTES, Accepting, Connecting

    batches = [SOURCE.batch(0, at) for at in range(0, SOURCE.length(0), SOURCE.batch_rows)]
    messages = [encode(batch) for batch in batches]
    arrived: list[str] = []
    rows: list[Identity] = []
    ends = socket.socketpair()
    with ends[0], ends[1]:
        secret = bytes(SECRET_BYTES)
        out = OutChannel(ends[0], Connecting(ends[0], secret, destination=2, introduced=(1, 1)))
        accepting = Accepting(ends[1], secret, destination=2)
        proved = accepting.advance()
        into = InChannel(ends[1], sender=1)
        for number, message in enumerate(messages):
            out.send(ROWS, data=message)
            if number == 0:
                out.send(BARRIER, checkpoint_id=1)
        left = out.credits
        while (frame := into.receive()) is not None:
            kind, checkpoint_id, body = frame
            if kind == BARRIER:
                arrived.append(f"barrier {checkpoint_id}")
            elif kind == ROWS:
                arrived.append(rows_named(batch := decode(body)))
                rows += [row[:2] for row in batch]
                into.give_credits(1)
        out.take_credits()
    size = sum(message.size for message in messages)
    scene = Scene("Over the network, to another worker")
    scene.ran = (
        "the channel that workers use between them, on a pair of sockets; 3 batches and a barrier behind the first"
    )
    scene.fact(f"{size} bytes of Arrow messages for {len(rows)} rows", size)
    scene.fact(
        f"of {CREDITS} credits {left} were left when all was sent, and {out.credits} when it was processed",
        [CREDITS, left, out.credits],
    )
    scene.check("the sender has proved its identity", (True, (1, 1)), (proved, accepting.introduced))
    scene.check("the same rows arrive, in order", [row[:2] for batch in batches for row in batch], rows)
    scene.check("the barrier keeps its place", 1, arrived.index("barrier 1") if "barrier 1" in arrived else None)
    scene.check(
        "each batch costs a credit until it is processed", [CREDITS - len(batches), CREDITS], [left, out.credits]
    )
    return scene.finish(f"arrived, in order: {', '.join(arrived)}")
