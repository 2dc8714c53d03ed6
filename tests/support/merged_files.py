"""Parts as files, of which four of one level are merged into one of the next. A file knows its parts. Wrong, as a death
within the second merge leaves files of the first level beside what was made of them: OneLevel. Right: EachLevel.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sinkproof import Claim
from sinkproof.subject.scratch import Scratch

MERGED_AT_ONCE = 4


class MergesFiles:
    levels_cleaned: ClassVar[Sequence[int]] = (0, 1, 2)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self, *, level: int | str = "*") -> dict[Path, Any]:
        return {file: json.loads(file.read_text()) for file in sorted(self.folder.glob(f"{level}_*.json"))}

    def is_committed(self, part: str) -> bool:
        return any(part in held["parts"] for held in self.files().values())

    def publish(self, part: str, rows: Sequence[Any]) -> None:
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for file in self.superseded():
                file.unlink()
            if not self.is_committed(part):
                self.put(0, [part], [[row.split, row.offset] for row in rows])
            self.merge(0)

    def put(self, level: int, parts: list[str], rows: list[Any]) -> None:
        temporary = self.folder / "next.new"
        temporary.write_text(json.dumps({"parts": parts, "rows": rows}))
        os.replace(temporary, self.folder / f"{level}_{parts[0]}.json")

    def merge(self, level: int) -> None:
        files = self.files(level=level)
        if len(files) < MERGED_AT_ONCE:
            return
        parts, rows = ([each for held in files.values() for each in held[name]] for name in ("parts", "rows"))
        self.put(level + 1, parts, rows)
        for file in files:
            file.unlink()
        self.merge(level + 1)

    def superseded(self) -> list[Path]:
        """Files of which the parts are in a file of a higher level, too."""
        found = []
        for level in self.levels_cleaned:
            higher = {
                part for file, held in self.files().items() if int(file.name[0]) > level for part in held["parts"]
            }
            found += [file for file, held in self.files(level=level).items() if higher.issuperset(held["parts"])]
        return found

    def record(self, part: str) -> None:
        """Nothing: the file is the mark."""

    def visible(self) -> Iterator[list[int]]:
        left_out = self.superseded()
        for file, held in self.files().items():
            if file not in left_out:
                yield from held["rows"]


class MergesFilesOnce(MergesFiles):
    levels_cleaned = (0,)


class EachLevel:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    made: ClassVar[type[MergesFiles]] = MergesFiles

    def sink(self, scratch: Scratch) -> Any:
        return self.made(scratch.path)

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        return self.made(scratch.path).visible()


class OneLevel(EachLevel):
    made = MergesFilesOnce
