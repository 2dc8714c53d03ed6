"""Runs a reader command: an independent program that prints the rows in the target as (split, offset) pairs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.chaos.processes.spawn import CapturedOutput

QUOTED_CHARACTERS: Final = 200


class ReaderFailed(Exception):
    """The reader has not reported what is visible. `evidence`: the text that cannot be parsed, or its last output."""

    def __init__(self, why: str, *, evidence: str = "") -> None:
        super().__init__(why, evidence)
        self.why, self.evidence = why, evidence

    def __str__(self) -> str:
        return f"the reader {self.why}" + (f": {self.evidence}" if self.evidence else "")


def read_command(reader: Sequence[str], scratch: Path, *, seconds: float) -> list[tuple[int, int]]:
    """Everything that the reader prints, in its order. It is killed when this thread ends, or after `seconds`."""
    output = CapturedOutput()
    try:
        process = subprocess.Popen(
            list(reader),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output.descriptor,
            env={**os.environ, "SINKPROOF_SCRATCH": str(scratch.resolve())},
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
        )
        said = _communicate(process, seconds)
        if process.returncode:
            raise ReaderFailed(f"failed with status {process.returncode}", evidence=output.tail().strip())
    except subprocess.TimeoutExpired:
        raise ReaderFailed(f"did not end within {seconds:g} s", evidence=output.tail().strip()) from None
    except OSError as error:
        raise ReaderFailed(f"cannot be run: {error}") from error
    finally:
        output.close()
    return [_identity(line) for line in said.splitlines() if line.strip()]


def _communicate(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    with process:
        try:
            return process.communicate(timeout=seconds)[0]
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _identity(line: bytes) -> tuple[int, int]:
    try:
        row: Any = json.loads(line)
        split, offset = (row["split"], row["offset"]) if isinstance(row, dict) else row
    except (ValueError, TypeError, KeyError):
        split = offset = None
    if type(split) is int and type(offset) is int:
        return split, offset
    quoted = line[:QUOTED_CHARACTERS].decode(errors="replace")
    raise ReaderFailed("printed a line that is no [split, offset]", evidence=repr(quoted))
