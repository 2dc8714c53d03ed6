"""Independent readers of the file targets' output, and the state texts that explorers compare.

They read a disk and know the layouts; they share no state with the attempts that write. A listed file may be gone when
it is read, because an attempt collected it in between; the next read shows the result.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.files.file_system import Disk
from sinkproof.sink_adapters.files.log_files import RECORD
from sinkproof.sink_adapters.files.masked_files import PART, markers
from sinkproof.sink_adapters.files.row_formats import JSON_LINES, KEYED_LINE, FileFormat, keyed_rows
from sinkproof.sink_adapters.protocol import Identity, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import GARBAGE_COUNTED_MOST, is_named_in

LOG: Final = re.compile(r"(?P<owner>.+)-(?P<generation>\d+)\.jsonl")


class Part(NamedTuple):
    """A part file, in reading order: by checkpoint, subtask, generation, number."""

    sequence: int
    subtask: int
    generation: int
    number: int
    path: str


@lru_cache(maxsize=1 << 12)
def _part(folder: str, name: str) -> Part | None:
    match = PART.fullmatch(name)
    if match is None:
        return None
    sequence, subtask, generation, number = map(int, match.groups())
    return Part(sequence, subtask, generation, number, f"{folder}/{name}")


def _walk(disk: Disk, folder: str) -> Iterator[str]:
    """Paths of the files below, sorted by folder."""
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if PART.fullmatch(name) is None and disk.is_folder(path):
            yield from _walk(disk, path)
        else:
            yield path


def _read(disk: Disk, path: str) -> bytes:
    try:
        return disk.read(path)
    except FileNotFoundError:
        return b""


# -- transactions --------------------------------------------------------------------------------


def committed_parts(disk: Disk) -> list[Part]:
    found = [_part(*path.rsplit("/", 1)) for path in _walk(disk, "committed")]
    return sorted(part for part in found if part is not None)


def read_committed(disk: Disk, *, form: FileFormat = JSON_LINES) -> list[Identity]:
    """(split, offset) of every committed row, by checkpoint."""
    return [row for part in committed_parts(disk) for row in form.identities(disk.read(part.path))]


def committed_rows(disk: Disk, *, form: FileFormat) -> list[Row]:
    return [row for part in committed_parts(disk) for row in form.rows(disk.read(part.path))]


def committed_paths(disk: Disk) -> list[str]:
    """The files that `read_committed` reads, for other readers."""
    return [part.path for part in committed_parts(disk)]


def transactions_residue(disk: Disk) -> list[str]:
    """Files in progress or pending, and folders of earlier attempts that are not settled."""
    taken = [f"fenced/{folder}/{name}" for folder in disk.list("fenced") for name in disk.list(f"fenced/{folder}")]
    return [*_walk(disk, "staging"), *taken]


def transactions_text(disk: Disk, live: str, *, form: FileFormat = JSON_LINES) -> str:
    """Names and contents of files of transactions that `live` may still name: no other can ever be committed.

    Other staged files are counted up to two (they will be removed unread, one by one); other committed files appear as
    rows only. An empty folder counts as none.
    """
    folders = [f"{home}/{folder}" for home in ("staging", "fenced") for folder in disk.list(home)]
    staged = [_staged_text(disk, folder, live=live) for folder in folders if disk.list(folder)]
    named: list[tuple[str, bytes]] = []
    unnamed: list[Row] = []
    for part in committed_parts(disk):
        content = disk.read(part.path)
        if is_named_in(f"-{part.subtask}-{part.generation}-{part.sequence}", live):
            named.append((part.path, content))
        else:
            unnamed += form.rows(content)
    return repr((staged, named, unnamed))


def _staged_text(disk: Disk, folder: str, *, live: str) -> tuple[Any, ...]:
    """`folder` is one subtask's. Which attempt fenced another is left out: it is never read."""
    subtask = folder.rpartition("-")[2]
    attempts: list[tuple[int, int, list[tuple[str, bytes]]]] = []
    for name in disk.list(folder):
        generation = name[1:].partition("-")[0]
        files = disk.list(f"{folder}/{name}")
        named = [file for file in files if is_named_in(f"-{subtask}-{generation}-{int(file.partition('-')[0])}", live)]
        contents = [(file, disk.read(f"{folder}/{name}/{file}")) for file in named]
        others = min(len(files) - len(named), GARBAGE_COUNTED_MOST)
        attempts.append((int(generation) if named else 0, others, contents))
    return folder, sorted(attempts)


# -- masked files --------------------------------------------------------------------------------


def read_masked(place: str | os.PathLike[str] | Disk, *, form: FileFormat = JSON_LINES) -> list[Identity]:
    """(split, offset) of every revealed row, by checkpoint. `place`: the folder that the sinks write to."""
    disk = RealDisk(place) if isinstance(place, (str, os.PathLike)) else place
    return [row for path in revealed_paths(disk) for row in form.identities(disk.read(path))]


def masked_rows(disk: Disk, *, form: FileFormat) -> list[Row]:
    return [row for path in revealed_paths(disk) for row in form.rows(disk.read(path))]


def revealed_paths(disk: Disk) -> list[str]:
    """The files that `read_masked` reads, for other readers."""
    return [part.path for part, revealed in sorted(_masked_parts(disk)) if revealed]


def _masked_parts(disk: Disk) -> Iterator[tuple[Part, bool]]:
    """Every part, and whether it is revealed. One listing per folder: a part is always older than its marker."""
    for sink in disk.list("masked"):
        names = disk.list(f"masked/{sink}")
        revealed = markers(names)
        for name in names:
            part = _part(f"masked/{sink}", name)
            if part is not None:
                yield part, part.sequence <= revealed.get(part.generation, 0)


def revealed_checkpoints(disk: Disk) -> list[int]:
    """Checkpoints with a marker."""
    return sorted(upto for sink in disk.list("masked") for upto in markers(disk.list(f"masked/{sink}")).values())


def masked_residue(disk: Disk) -> list[str]:
    return [part.path for part, revealed in _masked_parts(disk) if not revealed]


def masked_text(disk: Disk, live: str, *, form: FileFormat = JSON_LINES) -> str:
    """Hidden parts that `live` may still reveal, the number of others up to two, revealed rows, and live markers."""
    parts = sorted(_masked_parts(disk))
    hidden = [part for part, revealed in parts if not revealed]
    named = [(part.path, _read(disk, part.path)) for part in hidden if str(part.generation) in live]
    others = (part for part in hidden if str(part.generation) not in live)
    garbage = Counter((part.path.rpartition("/")[0], part.subtask) for part in others)
    shown = [row for part, revealed in parts if revealed for row in form.rows(disk.read(part.path))]
    marked = [
        (sink, generation, checkpoint)
        for sink in disk.list("masked")
        for generation, checkpoint in sorted(markers(disk.list(f"masked/{sink}")).items())
        if str(generation) in live
    ]
    left = [(owner, min(number, GARBAGE_COUNTED_MOST)) for owner, number in sorted(garbage.items())]
    return repr((named, left, marked, shown))


# -- logs ----------------------------------------------------------------------------------------


def read_log(disk: Disk) -> list[Identity]:
    """Every whole line of every attempt, older generations first, repeats included."""
    return [row for content in _logs(disk) for row in JSON_LINES.identities(content)]


def log_rows(disk: Disk) -> list[Row]:
    return [row for content in _logs(disk) for row in JSON_LINES.rows(content)]


def _logs(disk: Disk) -> list[bytes]:
    found = [match for match in map(LOG.fullmatch, disk.list("log")) if match]
    found.sort(key=lambda match: (int(match["generation"]), match["owner"]))
    return [disk.read(f"log/{match[0]}") for match in found]


def read_table(disk: Disk) -> list[Identity]:
    """The log folded by the key of each line: the last one counts."""
    table: dict[bytes, tuple[bytes, bytes]] = {}
    for content in _logs(disk):
        table.update({key: (split, offset) for split, offset, key in KEYED_LINE.findall(content)})
    return sorted((int(split), int(offset)) for split, offset in table.values())


def table_rows(disk: Disk) -> list[Row]:
    return sorted(dict(entry for content in _logs(disk) for entry in keyed_rows(content)).values())


def read_folded(disk: Disk) -> list[Identity]:
    """The log folded by row identity."""
    return sorted(set(read_log(disk)))


def folded_rows(disk: Disk) -> list[Row]:
    return sorted({row[:2]: row for row in log_rows(disk)}.values())


def log_text(disk: Disk, live: str) -> str:
    """Rows without their files, which no later attempt opens; records that an attempt may still request.

    The number of repeats is left out: no sink reads it, and no pair on a log claims that rows are not repeated.
    """
    rows, table = read_folded(disk), read_table(disk)
    records = {name.decode() for file in disk.list("sent") for name in RECORD.findall(disk.read(f"sent/{file}"))}
    return repr((rows, table, sorted(name for name in records if is_named_in(name, live))))
