"""Opens the storage that a configuration or a command names: the coordinator's memory, a folder, or a URL."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sinkproof.chaos.optional_packages import install_command
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    MEMORY,
    CheckpointConfiguration,
    ConfigurationError,
)
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.memory_storage import CheckpointStorage, MemoryCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_store import open_objects

FOLDER_SCHEMES: Final = ("", "file", "local")  # a folder offers renames, and is forced to disk
IN_MEMORY_SCHEME: Final = "memory"  # of a store that ends with its process


def open_storage(configuration: CheckpointConfiguration) -> CheckpointStorage:
    """Claims nothing yet. Raises ConfigurationError if there is no such kind of storage."""
    if configuration.checkpoint_storage == MEMORY:
        return MemoryCheckpointStorage()
    return storage_at(configuration.checkpoint_storage, retained=configuration.checkpoints_retained)


def is_folder(where: str) -> bool:
    return urlsplit(where).scheme in FOLDER_SCHEMES


def storage_at(
    where: str, *, retained: int = 1, generation: int = 0
) -> FolderCheckpointStorage | ObjectCheckpointStorage:
    """A folder, or a URL. Claims nothing yet. `generation`: an attempt's, which stores and does not decide."""
    url = urlsplit(where)
    if is_folder(where):
        folder = Path(unquote(url.path) if url.scheme else where)
        return FolderCheckpointStorage(folder, retained=retained, generation=generation)
    if url.scheme == IN_MEMORY_SCHEME:
        raise ConfigurationError(
            f"checkpoints at {where} would end with the process that wrote them: name {MEMORY!r} in a configuration, "
            "or a folder"
        )
    try:
        return ObjectCheckpointStorage(open_objects(where), retained=retained, generation=generation)
    except ImportError as error:
        raise ConfigurationError(
            f"checkpoints at {where} need a package that is not installed ({error.name}): install it "
            f"({install_command('remote')}), or name a folder"
        ) from error
