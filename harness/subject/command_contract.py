"""The contract of a sink that is a command: another language, another machine's idea of a process, the same crashes."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Sequence
from typing import Any, Final

from sinkproof.subject.contract import ContractError
from sinkproof.subject.scratch import Scratch

PREFIX: Final = "command:"
READ_SECONDS: Final = 30.0


def locator(command: str, reader: str, claims: str) -> str:
    """Everything a worker process needs, in one word; checked here, where the user still looks."""
    for what, text in (("--command", command), ("--reader", reader)):
        words = _split(what, text)
        if shutil.which(words[0]) is None:
            raise ContractError(f"{what}: there is no program {words[0]!r} that could be run. Is it executable?")
    return PREFIX + json.dumps(
        {"command": command, "reader": reader, "claims": [claim.strip() for claim in claims.split(",")]}
    )


def _split(what: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ContractError(f"{what} {text!r} cannot be split into words: {error}") from error
    if not words:
        raise ContractError(f"{what} is empty")
    return words


class CommandContract:
    """What `--command` and `--reader` say, as a contract."""

    def __init__(self, place: str) -> None:
        said: dict[str, Any] = json.loads(place.removeprefix(PREFIX))
        self.command: Sequence[str] = _split("--command", said["command"])
        self.reader: Sequence[str] = _split("--reader", said["reader"])
        self.claims: Sequence[str] = tuple(said["claims"])
        self.label: str = said["command"]

    def sink(self, scratch: Scratch) -> Any:
        raise ContractError("a command can only be run in the process shell: use --on process")

    def committed(self, scratch: Scratch) -> list[tuple[int, int]]:
        from sinkproof.reference_engine.shells.process.command_host import read_command

        return read_command(self.reader, scratch.path, seconds=READ_SECONDS)
