"""Records what a zombie has changed in the committed view. It must change nothing."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.visible_rows import changed_by_zombie
from sinkproof.reference_engine.shells.spark.deployment import Identity
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder

ROWS_REPORTED_MOST: Final = 100


def record_change(
    folder: RunFolder, actor: str, *, before: Counter[Identity], after: Counter[Identity], rows_vanish: bool
) -> None:
    added, removed = changed_by_zombie(FolderCheckpointStorage(folder.checkpoints).latest(), before, after)
    removed = [] if rows_vanish else removed
    if added or removed:
        rows = {"added": added[:ROWS_REPORTED_MOST], "removed": removed[:ROWS_REPORTED_MOST]}
        folder.events().record("zombie", actor=actor, **rows)
