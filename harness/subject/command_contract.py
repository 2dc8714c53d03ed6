"""The contract of a sink that is a command, in any language, which speaks JSON lines on stdin and stdout."""

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


def locator(command: str, reader: str | None, claims: str) -> str:
    """The locator: all options in one text. Checked here, before worker processes start. Raises ContractError."""
    if reader is None:
        raise ContractError("--command needs --reader: a command that prints the rows an independent reader sees")
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
    """The options `--command`, `--reader` and `--claims` as a contract."""

    def __init__(self, place: str) -> None:
        options: dict[str, Any] = json.loads(place.removeprefix(PREFIX))
        self.command: Sequence[str] = _split("--command", options["command"])
        self.reader: Sequence[str] = _split("--reader", options["reader"])
        self.claims: Sequence[str] = tuple(options["claims"])
        self.label: str = options["command"]

    def sink(self, scratch: Scratch) -> Any:
        raise ContractError("a command can only be run in the process shell: use --on process")

    def committed(self, scratch: Scratch) -> list[tuple[Any, ...]]:
        from sinkproof.reference_engine.shells.process.command_host import read_command

        return read_command(self.reader, scratch.path, seconds=READ_SECONDS)
