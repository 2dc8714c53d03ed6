"""What has a zombie changed in the committed view? It must change nothing."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered
from sinkproof.reference_engine.shells.spark.deployment import Identity
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder

ROWS_REPORTED_MOST: Final = 100


def record_change(
    folder: RunFolder, actor: str, *, before: Counter[Identity], after: Counter[Identity], rows_vanish: bool
) -> None:
    """Other attempts may have added rows of complete checkpoints meanwhile, each once: those are allowed."""
    complete = covered(FolderCheckpointStorage(folder.checkpoints).latest())
    added = [row for row in after - before if after[row] > 1 or row[1] >= complete.get(row[0], 0)]
    removed = [] if rows_vanish else [*(before - after)]
    if added or removed:
        rows = {"added": added[:ROWS_REPORTED_MOST], "removed": removed[:ROWS_REPORTED_MOST]}
        folder.events().record("zombie", actor=actor, **rows)
