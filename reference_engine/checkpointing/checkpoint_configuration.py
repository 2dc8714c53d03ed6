"""How a job takes checkpoints: Flink's options under their own names, in Python spelling and with Flink's meanings.

Times are in milliseconds of the shell's clock (virtual in simulations).
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sinkproof.reference_engine.dataflow.job_graph import Plan

MEMORY: Final = "memory"  # the coordinator's own: lost with it
LEAST: Final = {
    "checkpoint_interval": 1,
    "checkpoint_every_batches": 1,
    "checkpoint_timeout": 1,
    "min_pause_between_checkpoints": 0,
    "max_concurrent_checkpoints": 1,
    "tolerable_checkpoint_failure_number": 0,
    "aligned_checkpoint_timeout": 0,
    "checkpoint_id_of_ignored_in_flight_data": 1,
    "checkpoints_retained": 1,
    "closing_patience": 1,
    "settle_deadline": 1,
}


class CheckpointingMode(enum.Enum):
    EXACTLY_ONCE = "exactly_once"  # barriers are aligned
    AT_LEAST_ONCE = "at_least_once"  # barriers are only tracked: rows behind an early one enter the snapshot


class Cleanup(enum.Enum):
    """What happens to the retained checkpoint when the job is cancelled. A job that fails always keeps it."""

    RETAIN_ON_CANCELLATION = "retain_on_cancellation"
    DELETE_ON_CANCELLATION = "delete_on_cancellation"


class ConfigurationError(ValueError):
    """An impossible combination of options; the message says which, and why."""


class ConfigurationWarning(UserWarning):
    """A doubtful combination of options; the message says how it is resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfiguration:
    """When checkpoints are taken, how many at a time, and how many failures are tolerated."""

    checkpoint_interval: int | None = 10  # ms between triggers; None: none are taken (but see checkpoint_every_batches)
    checkpoint_every_batches: int | None = None  # triggered by the sources' progress: a cut is a matter of offsets
    checkpointing_mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    unaligned_checkpoints: bool = False  # barriers overtake rows, which become part of the snapshot
    aligned_checkpoint_timeout: int = 0  # ms from its trigger that an unaligned checkpoint tries to be aligned first
    force_unaligned_checkpoints: bool = False  # also where the job graph rules them out (see refuse_unsuitable)
    checkpoint_id_of_ignored_in_flight_data: int | None = None  # restoring this one drops its rows in flight: lost
    checkpoint_storage: str = MEMORY  # or a folder, or a URL; see open_storage.py
    checkpoint_ids_after_gaps: tuple[int, ...] = ()  # rising; all between them count as used, as by failed checkpoints
    checkpoint_timeout: int = 600_000  # ms until a pending checkpoint is aborted
    min_pause_between_checkpoints: int = 0  # ms between the end of one and the trigger of the next
    max_concurrent_checkpoints: int = 1
    tolerable_checkpoint_failure_number: int = 0  # that many in a row are tolerated; one more fails the job
    externalized_checkpoint_cleanup: Cleanup = Cleanup.RETAIN_ON_CANCELLATION
    checkpoints_retained: int = 1
    closing_patience: int = 60  # ms from the final decision until a sink without a notification is restarted
    settle_deadline: int = 1_000  # ms that a transaction may be in doubt after its completion before the job fails over

    def __post_init__(self) -> None:
        self._refuse_impossible()
        for doubt in self._doubts():
            warnings.warn(doubt, ConfigurationWarning, stacklevel=3)

    def _refuse_impossible(self) -> None:
        for name, bound in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ConfigurationError(f"{name}={value} is impossible: it must be at least {bound}")
        if self.checkpoint_interval is not None and self.checkpoint_every_batches is not None:
            raise ConfigurationError(
                "checkpoint_interval and checkpoint_every_batches exclude each other: a checkpoint is triggered "
                "by time or by progress; set one of them to None"
            )
        if self.unaligned and self.max_concurrent_checkpoints > 1:
            raise ConfigurationError(
                f"unaligned_checkpoints and max_concurrent_checkpoints={self.max_concurrent_checkpoints} exclude each "
                "other: rows between two barriers would belong to two checkpoints at once; take one at a time"
            )
        if not self.checkpoint_storage:
            raise ConfigurationError(f"checkpoint_storage is empty: it must be {MEMORY!r}, a folder, or a URL")

    def _doubts(self) -> Iterator[str]:
        """What is doubtful, and how it is resolved: as Flink resolves it."""
        pause, timeout = self.min_pause_between_checkpoints, self.aligned_checkpoint_timeout
        if pause > 0 and self.max_concurrent_checkpoints > 1:
            yield (
                f"min_pause_between_checkpoints={pause} allows one checkpoint at a time: "
                f"max_concurrent_checkpoints={self.max_concurrent_checkpoints} is taken as 1"
            )
        if self.interval != self.checkpoint_interval:
            yield (
                f"checkpoint_interval={self.checkpoint_interval} is shorter than "
                f"min_pause_between_checkpoints={pause}, and is taken as {pause}"
            )
        if self.unaligned_checkpoints and not self.unaligned:
            yield (
                "unaligned_checkpoints need checkpointing_mode EXACTLY_ONCE: at least once, barriers wait for nothing "
                "that they could overtake. They are taken as off"
            )
        if timeout > 0 and not self.unaligned_checkpoints:
            yield f"aligned_checkpoint_timeout={timeout} has no effect without unaligned_checkpoints"
        if self.unaligned and timeout >= self.checkpoint_timeout:
            yield (
                f"aligned_checkpoint_timeout={timeout} is not shorter than checkpoint_timeout="
                f"{self.checkpoint_timeout}: a checkpoint is aborted before it turns unaligned"
            )
        if self.force_unaligned_checkpoints and not self.unaligned_checkpoints:
            yield "force_unaligned_checkpoints has no effect without unaligned_checkpoints"

    @property
    def concurrent(self) -> int:
        """How many checkpoints may be pending at once, after Flink's resolution of doubtful combinations."""
        return 1 if self.min_pause_between_checkpoints > 0 else self.max_concurrent_checkpoints

    @property
    def interval(self) -> int | None:
        """ms between triggers, after Flink's resolution of doubtful combinations."""
        if self.checkpoint_interval is None:
            return None
        return max(self.checkpoint_interval, self.min_pause_between_checkpoints)

    @property
    def unaligned(self) -> bool:
        """Whether barriers may overtake rows, after Flink's resolution of doubtful combinations."""
        return self.unaligned_checkpoints and self.checkpointing_mode is CheckpointingMode.EXACTLY_ONCE


def refuse_unsuitable(plan: Plan, configuration: CheckpointConfiguration) -> None:
    """Rows in flight behind a custom partitioner cannot be rerouted when the parallelism changes."""
    if not configuration.unaligned or configuration.force_unaligned_checkpoints:
        return
    for subtask in plan.subtasks:
        if any(output.partitioner is not None for output in subtask.outputs):
            raise ConfigurationError(
                f"unaligned_checkpoints and the custom exchange behind {subtask.vertex} exclude each other: rows that "
                "are on their way there could not be restored with another parallelism. Set "
                "force_unaligned_checkpoints if it will never change, or use a keyed exchange"
            )
