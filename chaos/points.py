"""The catalogue of named points: the steps of the commit protocol at which a shell may inject a fault.

A point is either *named* (below; these are the protocol steps that reports speak of), or a *line* that the sink's
own code executes, written `line(file.py:42)`, or a *system call* of another program, written
`syscall(rename out/part-*)`. Named points are reached through `context.reach(...)` in this project's sinks, and around
every call into any other sink.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

CALLED_FROM: Final = " < "  # between the points of lines on one stack
LINE: Final = re.compile(r"line\((?P<file>[^()\s]+):(?P<number>\d+)\)")
SYSTEM_CALL: Final = re.compile(r"syscall\((?P<call>[a-z0-9_]+) (?P<about>[^()\s]+)\)")
UNSAFE: Final = re.compile(r"[^\w/*.~+=,:@-]")

AROUND_CALLS: Final[dict[str, str]] = {
    "open.before": "a new attempt is about to be opened; nothing was restored yet",
    "open.after": "the attempt has settled the transactions of the restored checkpoint",
    "write.before": "a batch is about to be written",
    "write.after": "a batch was written; nothing is guaranteed yet",
    "snapshot.before": "all barriers have arrived; the snapshot begins",
    "snapshot.after": "the snapshot's bytes exist in the attempt's memory only",
    "acknowledge.before": "the snapshot is persisted; the coordinator is not notified yet",
    "acknowledge.after": "the vote was sent",
    "notify_complete.before": "the checkpoint is complete; the sink is not notified yet",
    "notify_complete.after": "the sink has processed the completion",
    "notify_aborted.before": "the checkpoint was aborted; the sink is not notified yet",
    "notify_aborted.after": "the sink has processed the abort of the checkpoint",
    "settle.before": "a transaction is in doubt; the timer calls the sink to settle it",
    "settle.after": "the sink has tried again to settle its transactions",
    "end_of_input.before": "the last row was written; the sink is not notified of the end of input yet",
    "end_of_input.after": "the sink has processed the end of input",
}

COORDINATOR_POINTS: Final[dict[str, str]] = {
    "generation.before": "a restart begins; the old generation is still valid",
    "generation.after": "the new generation is durable; no subtask is notified yet",
    "checkpoint.trigger": "a checkpoint is about to be triggered",
    "checkpoint.persist.before": "every vote has arrived; the decision is not durable yet",
    "checkpoint.persist.after": "the decision is durable; no subtask is notified yet",
    "checkpoint.notify": "one subtask is about to be notified that the checkpoint is complete",
    "checkpoint.abort": "one subtask is about to be notified that the checkpoint was aborted",
}

SINK_POINTS: Final[dict[str, str]] = {
    "fence.before": "attempts of earlier generations can still act",
    "fence.after": "attempts of earlier generations are fenced",
    "begin.before": "a transaction is about to begin",
    "begin.after": "a transaction has begun",
    "pre_commit.before": "a transaction's rows are written, but may still be lost",
    "pre_commit.after": "the transaction can be committed from any process",
    "commit.before": "a pre-committed transaction is about to be committed",
    "commit.after": "the transaction is committed; the sink has not recorded it",
    "abort.before": "an orphaned transaction is about to be aborted",
    "abort.after": "the transaction is aborted",
    "publish.before": "rows of a complete checkpoint are about to be sent",
    "publish.after": "the rows are sent; the checkpoint is not recorded as sent yet",
    "record.before": "the committer is about to record that a checkpoint was sent",
    "record.after": "the committer has recorded it",
    "upsert.before": "rows are about to be upserted",
    "upsert.after": "the rows are upserted and visible",
    "append.before": "rows are about to be appended, visible at once",
    "append.after": "the rows are appended and visible",
    "stage.before": "rows are about to be staged, masked from readers",
    "stage.after": "the rows are staged and masked",
    "reveal.before": "the marker that reveals a checkpoint is about to be written",
    "reveal.after": "the marker is written: the checkpoint is visible",
    "collect.before": "rows that no checkpoint covers are about to be removed",
    "collect.after": "the rows are removed",
    "file.create": "a file is about to be created",
    "file.write": "bytes are about to be written to a file",
    "file.fsync": "a file is about to be forced to disk",
    "file.rename": "a file or folder is about to be renamed",
    "file.unlink": "a file is about to be removed",
    "file.read": "a file is about to be opened to read it, or the names in a folder are about to be read",
    "file.change_rows": "rows of an SQLite file are about to be changed",
    "file.commit": "a transaction of an SQLite file is about to be committed",
    "socket.send": "bytes are about to be sent to a service",
    "client.call": "the client of an external system is about to be called",
    "client.request": "the client of an external system is about to request what changes it, and to wait for the reply",
    "program.start": "a program was started; its input is not sent yet",
    "program.input": "the first part of its input was sent to a program",
    "file.make_directory": "a folder is about to be made",
    "file.remove_directory": "a folder is about to be removed",
    "file.fsync_directory": "a folder's entries are about to be forced to disk",
}

MESSAGE_POINTS: Final[dict[str, str]] = {  # of a broker, not of a sink: reached where a proxy lies between both
    "init_producer.request": "a producer requests an id, or the next epoch of it",
    "init_producer.reply": "a producer id is assigned; the reply is in flight",
    "add_partitions.request": "a partition is about to be added to a transaction",
    "add_partitions.reply": "the partition is added; the reply is in flight",
    "produce.request": "records are in flight to the broker",
    "produce.reply": "the records are stored; the reply is in flight",
    "end_txn.request": "a request to end a transaction is in flight",
    "end_txn.reply": "the end of a transaction is decided; the reply is in flight",
}

# Points at which an outage of the external system can affect a sink: between the first row of a checkpoint and its last
# settled transaction. Sources and votes never access that system.
COMMIT_WINDOW: Final = frozenset(
    {
        *(point for point in SINK_POINTS if not point.startswith(("file.", "socket.", "client.", "program."))),
        *(point for point in AROUND_CALLS if point.split(".")[0] in ("open", "write", "snapshot", "notify_complete")),
        *("checkpoint.persist.before", "checkpoint.persist.after", "checkpoint.notify"),
    }
)

CATALOGUE: Final[dict[str, str]] = {**AROUND_CALLS, **COORDINATOR_POINTS, **SINK_POINTS, **MESSAGE_POINTS}


def line_point(file: str, number: int) -> str:
    """`file`: relative to the package's folder; blanks are written as %20."""
    return f"line({file.replace(' ', '%20')}:{number})"


def is_line(point: str) -> bool:
    return point.startswith("line(")


@lru_cache(maxsize=4096)
def system_call_point(call: str, about: str) -> str:
    """`about`: what it changes. Schedules are split at blanks, and `#` begins an occurrence."""
    return f"syscall({call} {UNSAFE.sub(lambda match: f'%{ord(match[0]):02X}', about)})"


def is_system_call(point: str) -> bool:
    return point.startswith("syscall(")


def call_of(point: str) -> str:
    """The name of the system call; empty for any other point."""
    match = SYSTEM_CALL.fullmatch(point)
    return match["call"] if match else ""


def is_interior(point: str) -> bool:
    """Inside a call of the protocol, where a sink's bug sits: between two lines, or two system calls."""
    return is_line(point) or is_system_call(point)


def sentence(point: str) -> str:
    """What a point means, for reports."""
    if match := SYSTEM_CALL.fullmatch(point):
        return f"the system call {match['call']} of {match['about']} is about to be carried out"
    if match := LINE.fullmatch(point):
        return f"line {match['number']} of {match['file']} is about to be executed"
    return CATALOGUE.get(point, "a point that the sink itself defines")
