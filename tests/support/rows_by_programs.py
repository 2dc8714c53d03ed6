"""Rows go to a program, which publishes what it has read. Right: WholeParts, which publishes by itself. Wrong, too:
KilledIsDone, for which a program has failed only if its status is above zero; WhatEndsIsWhole and WhatIsThereIsWhole:
programs that get their input in one call publish it when it ends, or when it ends and is not empty.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE, Popen, run
from typing import Any, ClassVar

from sinkproof import Claim, Scratch

COPY = "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read()); os.replace(*sys.argv[1:])"


class ByProgram:
    """`by_itself`: the sink renames the file, when it has sent all rows."""

    def __init__(self, folder: Path, *, by_itself: bool, least: int) -> None:
        self.folder, self.by_itself, self.least = folder, by_itself, least

    def is_committed(self, part: str) -> bool:
        return (self.folder / f"{part}.rows").exists()

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        mine = f"{part}-{os.getpid()}"
        new, whole, final = (self.folder / name for name in (f"{mine}.new", f"{mine}.whole", f"{part}.rows"))
        copied = whole if self.by_itself else final
        with Popen([sys.executable, "-IS", "-c", COPY, new, copied], stdin=PIPE, text=True) as program:
            assert program.stdin is not None
            for row in rows:
                program.stdin.write(json.dumps([row.split, row.offset]) + "\n")
        if program.returncode and program.returncode > self.least:
            raise OSError("the program has failed")
        if self.by_itself and copied.exists():
            os.replace(copied, final)

    def record(self, part: str) -> None:
        """The file is the note."""


class WholeParts:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    by_itself = True
    least = -1000  # of a status that says that the program has failed

    def sink(self, scratch: Scratch) -> ByProgram:
        return ByProgram(scratch.path, by_itself=self.by_itself, least=self.least)

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        for file in scratch.path.glob("*.rows"):
            yield from map(json.loads, file.read_text().splitlines())


class PartsAsFarAsTheyCame(WholeParts):
    by_itself = False


class KilledIsDone(WholeParts):
    least = 0


class InOneCall(ByProgram):
    script: ClassVar = 'cat > "$1" && mv "$1" "$2"'

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        texts = [json.dumps([row.split, row.offset]) + "\n" for row in rows]
        new, final = (self.folder / f"{part}-{os.getpid()}.new", self.folder / f"{part}.rows")
        run(["/bin/sh", "-c", self.script, "publish", new, final], input="".join(texts), text=True, check=True)


class UnlessItIsEmpty(InOneCall):
    script = 'cat > "$1" && test -s "$1" && mv "$1" "$2"'


class WhatEndsIsWhole(WholeParts):
    kind: ClassVar[type[ByProgram]] = InOneCall

    def sink(self, scratch: Scratch) -> ByProgram:
        return self.kind(scratch.path, by_itself=False, least=0)


class WhatIsThereIsWhole(WhatEndsIsWhole):
    kind = UnlessItIsEmpty

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        """A line that was cut off is none."""
        for file in scratch.path.glob("*.rows"):
            yield from (json.loads(line) for line in file.read_text().splitlines() if line.endswith("]"))
