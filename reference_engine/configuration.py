"""How a job takes checkpoints: Flink's options under their own names, in Python spelling and with Flink's meanings.

Times are in milliseconds of the shell's clock (virtual in simulations).
"""

from __future__ import annotations

import enum
import warnings
from dataclasses import dataclass


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
    """When checkpoints are taken, how many at a time, and how much trouble is tolerated."""

    checkpoint_interval: int | None = 10  # ms between triggers; None: none are taken (but see checkpoint_every_batches)
    checkpoint_every_batches: int | None = (
        None  # triggered by the sources' progress, so that a cut is a matter of offsets
    )
    checkpointing_mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    checkpoint_timeout: int = 600_000  # ms until a pending checkpoint is aborted
    min_pause_between_checkpoints: int = 0  # ms between the end of one and the trigger of the next
    max_concurrent_checkpoints: int = 1
    tolerable_checkpoint_failure_number: int = 0  # that many in a row are tolerated; one more fails the job
    externalized_checkpoint_cleanup: Cleanup = Cleanup.RETAIN_ON_CANCELLATION
    checkpoints_retained: int = 1
    closing_patience: int = 60  # ms from the final decision until a sink that was told nothing is helped by a restart
    settle_deadline: int = 1_000  # ms that a transaction may be in doubt after its completion before the job fails over

    def __post_init__(self) -> None:
        self._refuse_impossible()
        if self.min_pause_between_checkpoints > 0 and self.max_concurrent_checkpoints > 1:
            warnings.warn(
                f"min_pause_between_checkpoints={self.min_pause_between_checkpoints} allows one checkpoint at a time: "
                f"max_concurrent_checkpoints={self.max_concurrent_checkpoints} is taken as 1",
                ConfigurationWarning,
                stacklevel=3,
            )

    def _refuse_impossible(self) -> None:
        least = {
            "checkpoint_interval": 1,
            "checkpoint_every_batches": 1,
            "checkpoint_timeout": 1,
            "min_pause_between_checkpoints": 0,
            "max_concurrent_checkpoints": 1,
            "tolerable_checkpoint_failure_number": 0,
            "checkpoints_retained": 1,
            "closing_patience": 1,
            "settle_deadline": 1,
        }
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ConfigurationError(f"{name}={value} is impossible: it must be at least {bound}")
        if self.checkpoint_interval is not None and self.checkpoint_every_batches is not None:
            raise ConfigurationError(
                "checkpoint_interval and checkpoint_every_batches exclude each other: a checkpoint is triggered "
                "by time or by progress; set one of them to None"
            )

    @property
    def concurrent(self) -> int:
        """How many checkpoints may be pending at once, after Flink's resolution of doubtful combinations."""
        return 1 if self.min_pause_between_checkpoints > 0 else self.max_concurrent_checkpoints
