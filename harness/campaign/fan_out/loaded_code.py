"""Does another host run the same code? Both load the subjects in a fresh process, and compare what was loaded."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer, NoReply
from sinkproof.chaos.standard_library import is_standard
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load

ENTRY: Final = "sinkproof.campaign.fan_out.loaded_code:report"
WORKERS: Final = (
    *PRELOAD,
    "sinkproof.campaign.workers.process_workers",
    "sinkproof.campaign.workers.simulated_workers",
    "sinkproof.campaign.fan_out.loaded_code",
    "sinkproof.campaign.fan_out.slot_task",
)
SECONDS: Final = 120.0  # for the imports of all subjects


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCode:
    """`modules`: name -> digest of its file. `why`: why a subject cannot be loaded; empty if all can."""

    modules: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    def differs(self, other: LoadedCode) -> str:
        """What another host has otherwise, as a sentence without a subject; empty: it has all of this."""
        if other.why:
            return f"cannot load a subject: {other.why}"
        missing = sorted(self.modules.keys() - other.modules.keys())
        if missing:
            return f"has no module {missing[0]}"
        changed = sorted(name for name, digest in self.modules.items() if other.modules[name] != digest)
        return f"has another file for the module {changed[0]}" if changed else ""


def loaded_code(server: ForkServer, locators: Sequence[str], *, folder: str) -> LoadedCode:
    """In a child of the server, which has imported WORKERS."""
    child = server.spawn(ENTRY, tuple(locators), folder)
    try:
        found = json.loads(child.receive(Deadline(SECONDS)))
        return LoadedCode(modules=found["modules"], why=found["why"])
    except NoReply as silence:
        words = child.output.tail().strip()[-300:] or "none"
        return LoadedCode(why=f"the process that loads it has {silence.silence.value}; its last words: {words}")
    finally:
        child.kill()
        child.close()


def report(inside: Inside, locators: Sequence[str], folder: str) -> None:
    """The entry of a child."""
    go_to(folder)
    why = ""
    try:
        for locator in locators:
            load(locator)
    except ContractError as error:
        why = str(error)
    inside.send(json.dumps({"modules": dict(_digests()), "why": why}).encode())


def go_to(folder: str) -> None:
    """Relative paths of a sink mean the same as in the campaign, if that folder is there."""
    with suppress(OSError):
        os.chdir(folder)


def _digests() -> Iterator[tuple[str, str]]:
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and not is_standard(Path(file)):
            with suppress(OSError):
                yield name, hashlib.blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()
