"""What a process is doing just now, where its caller can read it: also when it hangs, or has died."""

from __future__ import annotations

import os
from typing import Final

DOING_BYTES: Final = 300


class StepStatus:
    """A few words in memory that both share. Made by the caller; the process gets the descriptor."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("doing")

    def __str__(self) -> str:
        """For the end of a sentence."""
        what = os.pread(self.descriptor, DOING_BYTES, 0).decode(errors="replace").strip()
        return f"trying {what}" if what else "starting"

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def tell(descriptor: int, what: str) -> None:
    """By the process, before each step: it is there at once."""
    os.pwrite(descriptor, what.encode()[:DOING_BYTES].ljust(DOING_BYTES), 0)
