"""The catalogue of named points: the steps of the commit protocol at which a shell may stop somebody.

A point is either *named* (below; these are the protocol steps that reports speak of) or a *line* that the sink's own
code executes, written `line(file.py:42)`. Named points are reached through `context.reach(...)` in code of ours, and
around every call into code that is not.
"""

from __future__ import annotations

import re
from typing import Final

LINE: Final = re.compile(r"line\((?P<file>[^()\s]+):(?P<number>\d+)\)")

AROUND_CALLS: Final[dict[str, str]] = {
    "open.before": "a new attempt is about to be opened; nothing was restored yet",
    "open.after": "the attempt has settled what the restored checkpoint promised",
    "write.before": "a batch is about to be written",
    "write.after": "a batch was written; nothing is promised yet",
    "snapshot.before": "all barriers have arrived; the snapshot begins",
    "snapshot.after": "the snapshot's bytes exist; nobody else has them",
    "acknowledge.before": "the snapshot is persisted; the coordinator does not know",
    "acknowledge.after": "the vote is on its way",
    "notify_complete.before": "the checkpoint is complete; the sink does not know",
    "notify_complete.after": "the sink has done what the completion asks for",
    "notify_aborted.before": "the checkpoint was aborted; the sink does not know",
    "notify_aborted.after": "the sink knows that the checkpoint was aborted",
    "settle.before": "something is unsettled; the timer asks the sink to try again",
    "settle.after": "the sink has tried again",
    "end_of_input.before": "the last row was written; the sink does not know",
    "end_of_input.after": "the sink knows that no row follows",
}

COORDINATOR_POINTS: Final[dict[str, str]] = {
    "generation.before": "a restart begins; the old generation still holds",
    "generation.after": "the new generation is durable; nobody has been told",
    "checkpoint.trigger": "a checkpoint is about to be triggered",
    "checkpoint.persist.before": "every vote has arrived; the decision is not durable",
    "checkpoint.persist.after": "the decision is durable; nobody has been told",
    "checkpoint.notify": "one subtask is about to be told that the checkpoint is complete",
    "checkpoint.abort": "one subtask is about to be told that the checkpoint was aborted",
}

SINK_POINTS: Final[dict[str, str]] = {
    "fence.before": "attempts of earlier generations can still act",
    "fence.after": "attempts of earlier generations are fenced",
    "begin.before": "a transaction is about to begin",
    "begin.after": "a transaction has begun",
    "pre_commit.before": "a transaction's rows are written, but may still be lost",
    "pre_commit.after": "the transaction can be committed from any process",
    "commit.before": "a pre-committed transaction is about to be committed",
    "commit.after": "the transaction is committed; the sink has not noted it",
    "abort.before": "a transaction of nobody's is about to be aborted",
    "abort.after": "the transaction is aborted",
    "publish.before": "rows of a complete checkpoint are about to be sent",
    "publish.after": "the rows are sent; that they were is not recorded",
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
    "file.make_directory": "a folder is about to be made",
    "file.remove_directory": "a folder is about to be removed",
    "file.fsync_directory": "a folder's entries are about to be forced to disk",
}

MESSAGE_POINTS: Final[dict[str, str]] = {  # of a broker, not of a sink: they pass where a proxy stands in between
    "init_producer.request": "a producer asks for an id, or for another epoch of it",
    "init_producer.reply": "a producer has its id; it does not know",
    "add_partitions.request": "a transaction is about to grow by a partition",
    "add_partitions.reply": "the transaction has grown; its producer does not know",
    "produce.request": "records are on their way to the broker",
    "produce.reply": "the records are stored; their producer does not know",
    "end_txn.request": "the end of a transaction is asked for",
    "end_txn.reply": "the end of a transaction is decided; who asked for it does not know",
}

# Where it makes a difference to a sink that the system it writes to is gone: between the first row of a checkpoint and
# the last thing done about it. Sources and votes never speak to that system.
COMMIT_WINDOW: Final = frozenset(
    {
        *(point for point in SINK_POINTS if not point.startswith("file.")),
        *(point for point in AROUND_CALLS if point.split(".")[0] in ("open", "write", "snapshot", "notify_complete")),
        *("checkpoint.persist.before", "checkpoint.persist.after", "checkpoint.notify"),
    }
)

CATALOGUE: Final[dict[str, str]] = {**AROUND_CALLS, **COORDINATOR_POINTS, **SINK_POINTS, **MESSAGE_POINTS}


def line_point(file: str, number: int) -> str:
    """`file`: as the reader knows it, relative to the package's folder; blanks are written as %20."""
    return f"line({file.replace(' ', '%20')}:{number})"


def is_line(point: str) -> bool:
    return point.startswith("line(")


def sentence(point: str) -> str:
    """What a point means, for people."""
    if match := LINE.fullmatch(point):
        return f"line {match['number']} of {match['file']} is about to be executed"
    return CATALOGUE.get(point, "a point of the sink's own")
