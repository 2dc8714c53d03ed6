"""Opens the storage that a configuration names: the coordinator's memory, a folder, or a URL.

A feature of the library: no command of `sinkproof` calls it; `explain S08` demonstrates it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    MEMORY,
    CheckpointConfiguration,
    ConfigurationError,
)
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import CheckpointStorage, MemoryCheckpointStorage

FOLDER_SCHEMES: Final = ("", "file", "local")  # a folder offers renames, and is forced to disk


def open_storage(configuration: CheckpointConfiguration) -> CheckpointStorage:
    """Claims nothing yet. Raises ConfigurationError if there is no such kind of storage."""
    where, retained = configuration.checkpoint_storage, configuration.checkpoints_retained
    if where == MEMORY:
        return MemoryCheckpointStorage()
    url = urlsplit(where)
    if url.scheme in FOLDER_SCHEMES:
        return FolderCheckpointStorage(Path(unquote(url.path) if url.scheme else where), retained=retained)
    try:
        from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage

        return ObjectCheckpointStorage(where, retained=retained)
    except ImportError as error:
        raise ConfigurationError(
            f"checkpoint_storage={where!r} needs a package that is not installed ({error.name}): install it, or name "
            "a folder"
        ) from error
    except ValueError as error:
        raise ConfigurationError(
            f"checkpoint_storage={where!r} is of no kind that fsspec knows ({error}): name {MEMORY!r}, a folder, or "
            "another URL"
        ) from error
