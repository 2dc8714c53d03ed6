"""The job of the naive peer: one process, one sink, a checkpoint file; killed at random times by its parent.

usage: naive_job.py FOLDER ROWS CHECKPOINTS
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

from sinkproof.canaries.two_phase import CommitCopiesAgain
from sinkproof.sink_adapters.protocol import Batch, Context, Row


def save(path: Path, state: dict[str, object]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(state))
    os.replace(partial, path)


def main(folder: Path, rows: int, checkpoints: int) -> None:
    path = folder / "checkpoint.json"
    state = json.loads(path.read_text()) if path.exists() else {"id": 0, "offset": 0, "sink": "", "generation": 0}
    state["generation"] += 1
    save(path, state)
    sink = CommitCopiesAgain.make(folder)
    restored = [(0, base64.b64decode(state["sink"]))] if state["id"] else []
    done = state["id"] or None
    sink.open(Context(generation=state["generation"], restored=restored, checkpoint_id_restored=done))
    each = rows // checkpoints
    for checkpoint_id in range(state["id"] + 1, checkpoints + 1):
        for offset in range(state["offset"], state["offset"] + each):
            sink.write(Batch([Row(0, offset, "k", "v")]))
        handle = base64.b64encode(sink.snapshot(checkpoint_id)).decode()
        state |= {"id": checkpoint_id, "offset": state["offset"] + each, "sink": handle}
        save(path, state)
        sink.notify_complete(checkpoint_id)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
