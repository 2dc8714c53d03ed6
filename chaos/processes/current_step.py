"""The current step of a process, in memory shared with its caller: readable also when the process hangs or has died.

The caller notes there that what the process still looks for was found elsewhere, or that it is to end.
"""

from __future__ import annotations

import os
from typing import Final

STEP_BYTES: Final = 300
FOUND, INTERRUPTED = b"!", b"."  # after the step


class StepStatus:
    """The caller's side, which makes the shared memory; the process gets the descriptor."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("step")

    def __str__(self) -> str:
        """For the end of a sentence."""
        what = os.pread(self.descriptor, STEP_BYTES, 0).decode(errors="replace").strip()
        return f"trying {what}" if what else "starting"

    def note_found_elsewhere(self) -> None:
        os.pwrite(self.descriptor, FOUND, STEP_BYTES)

    def note_interrupted(self) -> None:
        os.pwrite(self.descriptor, INTERRUPTED, STEP_BYTES)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def report_step(descriptor: int, what: str) -> None:
    """Called by the process before each step."""
    os.pwrite(descriptor, what.encode()[:STEP_BYTES].ljust(STEP_BYTES), 0)


def is_found_elsewhere(descriptor: int) -> bool:
    return os.pread(descriptor, len(FOUND), STEP_BYTES) == FOUND


def is_interrupted(descriptor: int) -> bool:
    return os.pread(descriptor, len(INTERRUPTED), STEP_BYTES) == INTERRUPTED
