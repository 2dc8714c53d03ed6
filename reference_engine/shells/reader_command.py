"""Runs a reader command: an independent program that prints the rows in the target, a line of JSON for each: `[split,
offset]`, or `[split, offset, key, value]` and perhaps the event time in ms; or objects with these fields.
"""

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
FIELDS: Final = ("split", "offset", "key", "value", "event_time_ms")


class ReaderFailed(Exception):
    """The reader has not reported what is visible. `evidence`: the text that cannot be parsed, or its last output."""

    def __init__(self, why: str, *, evidence: str = "") -> None:
        super().__init__(why, evidence)
        self.why, self.evidence = why, evidence

    def __str__(self) -> str:
        return f"the reader {self.why}" + (f": {self.evidence}" if self.evidence else "")


class UnreadableTarget(ReaderFailed):
    """It ran, and cannot make anything of what is in the target now: a sink may have left it so."""


def read_command(reader: Sequence[str], scratch: Path, *, seconds: float) -> list[tuple[Any, ...]]:
    """Everything that the reader prints, in its order. It is killed when this thread ends, or after `seconds`.

    Raises UnreadableTarget if it ends with another status than 0, or prints anything else than rows; ReaderFailed if it
    cannot be run, or does not end.
    """
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
            raise UnreadableTarget(f"failed with status {process.returncode}", evidence=output.tail().strip())
    except subprocess.TimeoutExpired:
        raise ReaderFailed(f"did not end within {seconds:g} s", evidence=output.tail().strip()) from None
    except OSError as error:
        raise ReaderFailed(f"cannot be run: {error}") from error
    finally:
        output.close()
    return [_row(line) for line in said.splitlines() if line.strip()]


def _communicate(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    with process:
        try:
            return process.communicate(timeout=seconds)[0]
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _row(line: bytes) -> tuple[Any, ...]:
    try:
        row: Any = json.loads(line)
        cells = [row[name] for name in FIELDS if name in row] if isinstance(row, dict) else row
        split, offset, *more = cells
    except (ValueError, TypeError):
        split, offset, more = None, None, []
    if type(split) is int and type(offset) is int:
        return split, offset, *more
    quoted = line[:QUOTED_CHARACTERS].decode(errors="replace")
    raise UnreadableTarget(
        "printed a line that is no [split, offset] or [split, offset, key, value]", evidence=repr(quoted)
    )
