"""Describes a job to all its processes; each makes the description from a few plain values.

Tasks run in processes that Spark's JVM has started: nothing can be inherited, and closures would be copied with every
task. So a job travels as a *recipe*: the name of a function, and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sinkproof.chaos.processes.child_channel import resolve
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.open_storage import storage_at
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.spark.control_messages import SILENCE_SECONDS, Address
from sinkproof.reference_engine.shells.spark.host_addresses import LOOPBACK
from sinkproof.reference_engine.shells.spark.peer_authentication import new_secret
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.sink_adapters.protocol import Sink

Identity = tuple[int, int]  # (split, offset) of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The job, how its sinks are made, and which of their lines and file effects are points."""

    job: Job
    make_sink: Callable[[], Sink]
    files: Mapping[str, str] = field(default_factory=dict)  # the sink's own code
    traces_lines: bool = False  # its executed lines are points
    effects_below: str = ""  # file effects below this folder are points; "": none are
    pace_ms: int = 0  # between two batches of a source; 0: as fast as the sinks take them
    read_committed: Callable[[], Sequence[Identity] | None] | None = None  # an independent reader; None: unreadable
    rows_vanish: bool = False  # a newer row replaces an older one, which a reader then rightly does not see
    on_complete: Callable[[Mapping[int, int]], None] | None = None  # receives the offsets of each complete checkpoint
    zombies_resume_late: bool = False  # after a checkpoint of their successors, not right after their recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRun:
    """One run of one job: what its processes are started with."""

    recipe: str  # "module:function", called with the arguments; returns the Deployment
    arguments: Mapping[str, Any]
    folder: Path
    network: str = "unix"
    host: str = LOOPBACK  # over TCP: the driver's address
    coordinator: Address = ""
    checkpoint_id_stopped: int = 0  # final only because the user stopped the job: its input goes on
    secret: bytes = field(default_factory=new_secret, repr=False)  # its processes share it
    checkpoints: str = ""  # a URL; "": in the folder
    title: str = ""  # in Spark's UI; "": the recipe's name
    silence_seconds: int = SILENCE_SECONDS  # between hosts, from which each end gives up the other one

    def storage(self, *, retained: int = 1, generation: int = 0) -> FolderCheckpointStorage | ObjectCheckpointStorage:
        """Of a process that will not fork any more: an object store's threads would be missing in the child."""
        where = self.checkpoints or str(RunFolder(self.folder).checkpoints)
        return storage_at(where, retained=retained, generation=generation)

    def deployment(self) -> Deployment:
        made = resolve(self.recipe)(**self.arguments)
        if not isinstance(made, Deployment):
            raise TypeError(f"{self.recipe} returned {type(made).__name__}, not a Deployment")
        return made
