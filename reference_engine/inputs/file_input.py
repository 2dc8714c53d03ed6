"""A user's files as an input that can be replayed: a split is one file, an offset is a row number.

Files are examined once, when the input is made; their sizes and checksums go to every process. A process that opens
one checks that it still begins and ends as it did then. A file that has grown is read as far as it went.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Final, Protocol
from zlib import crc32

from sinkproof.reference_engine.dataflow.replayable_sources import Input, InputError
from sinkproof.reference_engine.inputs.input_rows import Picked
from sinkproof.sink_adapters.protocol import Batch

JSON_SUFFIXES: Final = (".jsonl", ".json", ".ndjson")
PARQUET_SUFFIXES: Final = (".parquet",)
READABLE: Final = ", ".join((*JSON_SUFFIXES, *PARQUET_SUFFIXES))
EDGE_BYTES: Final = 1 << 16  # of either end: replacing a file changes one of them
BATCH_ROWS: Final = 10_000  # what makes the cost of a batch small beside that of its rows


class FileReader(Protocol):
    """Goes on from row `offset` of one file."""

    offset: int

    def read(self, count: int) -> Batch: ...

    def close(self) -> None: ...


class RowMap(Protocol):
    """Where the rows of one file are."""

    rows: int

    def check(self, picked: Picked) -> None:
        """Raises InputError unless the first row has what was picked."""

    def reader(self, split: int, offset: int, picked: Picked) -> FileReader: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One split, as it was found."""

    path: str
    size: int
    checksum: int
    map: RowMap

    @property
    def manifest(self) -> dict[str, Any]:
        return {"path": self.path, "rows": self.map.rows, "bytes": self.size, "checksum": self.checksum}


class FileInput(Input):
    """JSON-lines or Parquet files, one kind of them; `paths` are files, folders, or patterns such as `logs/*.jsonl`.

    `key`, `value` and `event_time` name columns; without `value` it is the whole record, as compact JSON with sorted
    keys (the slow way: name a column where one will do). `earlier` is the `manifest` of the run that this one goes on
    from: its files keep their splits, new ones come behind them. Raises InputError.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        key: str,
        value: str | None = None,
        event_time: str | None = None,
        batch_rows: int = BATCH_ROWS,
        earlier: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        if batch_rows < 1:
            raise InputError(f"batch_rows={batch_rows}: there must be at least one row in a batch")
        self.batch_rows = batch_rows
        self.picked = Picked(key=key, value=value, event_time=event_time)
        found = find_files([paths] if isinstance(paths, str | os.PathLike) else paths)
        self.files = [look_at(path, self.picked) for path in in_order(found, earlier)]
        self.splits = len(self.files)
        if not any(file.map.rows for file in self.files):
            raise InputError(f"no row in {_some([file.path for file in self.files])}: give files that hold rows")
        self._readers: dict[int, FileReader] = {}
        self._process = 0  # that opened them: a fork shares the file position with its parent

    def length(self, split: int) -> int:
        return self.files[split].map.rows

    def name_of(self, split: int) -> str:
        return self.files[split].path

    @property
    def manifest(self) -> list[dict[str, Any]]:
        """What was found, for JSON: keep it beside the checkpoints, and give it back as `earlier`."""
        return [file.manifest for file in self.files]

    def batch(self, split: int, offset: int) -> Batch:
        """Quick where the last one ended; after a restart, a jump."""
        file = self.files[split]
        count = min(self.batch_rows, file.map.rows - offset)
        try:
            batch = self._read(split, offset, count)
        except InputError as error:
            raise error if file.path in str(error) else InputError(f"{file.path}: {error}") from error
        except (OSError, ValueError) as error:
            raise InputError(f"{file.path} can no longer be read at row {offset}: {error}") from error
        if len(batch) < count:
            raise InputError(_changed(file.path, f"it ends before row {offset + len(batch)} of {file.map.rows}"))
        return batch

    def _read(self, split: int, offset: int, count: int) -> Batch:
        """Keeps the reader for the next batch, if there is one."""
        reader = self._reader(split, offset)
        with ExitStack() as done:
            done.callback(reader.close)
            batch = reader.read(count)
            if reader.offset < self.files[split].map.rows:
                self._readers[split] = reader
                done.pop_all()
        return batch

    def _reader(self, split: int, offset: int) -> FileReader:
        if self._process != os.getpid():
            self._readers, self._process = {}, os.getpid()
        reader = self._readers.pop(split, None)
        if reader is not None and reader.offset == offset:
            return reader
        if reader is not None:
            reader.close()
        refuse_changed(self.files[split].manifest)
        return self.files[split].map.reader(split, offset, self.picked)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": {}, "_process": 0}


# -- which files -----------------------------------------------------------------------------------


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Absolute, sorted, each once, all of one kind."""
    given = [os.fspath(path) for path in paths]
    if not given:
        raise InputError("no input was named: give files, folders, or a pattern such as 'logs/*.jsonl'")
    found = sorted({os.path.abspath(file) for path in given for file in _expanded(path)})
    others = [path for path in found if not path.endswith((*JSON_SUFFIXES, *PARQUET_SUFFIXES))]
    if others:
        raise InputError(
            f"{_some(others)}: neither JSON lines nor Parquet by name ({READABLE}). Convert it, or name the others only"
        )
    kinds = [[path for path in found if path.endswith(kind)] for kind in (JSON_SUFFIXES, PARQUET_SUFFIXES)]
    if all(kinds):
        raise InputError(f"both JSON lines ({_some(kinds[0])}) and Parquet ({_some(kinds[1])}): give one kind of them")
    return found


def _expanded(path: str) -> list[str]:
    if os.path.isdir(path):
        files = [str(file) for file in Path(path).rglob("*") if file.is_file() and not _is_hidden(file, path)]
        if not files:
            raise InputError(f"the folder {path} holds no file: give one that holds {READABLE}")
        return files
    if os.path.exists(path):
        return [path]
    if has_magic(path):
        matches = glob(path, recursive=True)
        if not matches:
            raise InputError(f"nothing matches {path!r} in {os.getcwd()}: check the pattern")
        return [file for match in matches for file in _expanded(match)]
    raise InputError(f"there is no {path!r}{_neighbours(path)}")


def _is_hidden(file: Path, folder: str) -> bool:
    """As Hadoop and Spark have it: their markers and checksums are no data."""
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _neighbours(path: str) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        return f": not even its folder {folder}. Check the path"
    near = get_close_matches(os.path.basename(path), os.listdir(folder), n=3)
    return f" in {folder}. Did you mean {', '.join(near)}?" if near else f" in {folder}. Check the path"


def _some(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


# -- what is in them -------------------------------------------------------------------------------


def look_at(path: str, picked: Picked) -> InputFile:
    try:
        size = os.path.getsize(path)
        made = _map_of(path)
        made.check(picked)
        return InputFile(path=path, size=size, checksum=_checksum(path, size), map=made)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _map_of(path: str) -> RowMap:
    if path.endswith(PARQUET_SUFFIXES):
        # 0.1 s that readers of JSON need not wait for
        from sinkproof.reference_engine.inputs.parquet_input import GroupMap

        return GroupMap(path)
    from sinkproof.reference_engine.inputs.json_lines_input import LineMap

    return LineMap(path)


def _checksum(path: str, size: int) -> int:
    """Of both ends of the first `size` bytes."""
    with open(path, "rb") as file:
        checksum = crc32(file.read(min(EDGE_BYTES, size)))
        file.seek(max(0, size - EDGE_BYTES))
        return crc32(file.read(min(EDGE_BYTES, size)), checksum)


# -- whether they are still the same ---------------------------------------------------------------


def in_order(found: Sequence[str], earlier: Sequence[Mapping[str, Any]]) -> list[str]:
    before = [str(file["path"]) for file in earlier]
    for file in earlier:
        if file["path"] not in found:
            raise InputError(f"{file['path']} was read by the run to go on from, and is not among the input now")
        refuse_changed(file)
    return [*before, *(path for path in found if path not in before)]


def refuse_changed(file: Mapping[str, Any]) -> None:
    """It may have grown, if it is read line by line: the footer of a Parquet file ends it."""
    path, size = str(file["path"]), int(file["bytes"])
    try:
        now = os.path.getsize(path)
        if now < size or (now > size and path.endswith(PARQUET_SUFFIXES)):
            raise InputError(_changed(path, f"it had {size} bytes and has {now}"))
        if _checksum(path, size) != file["checksum"]:
            raise InputError(_changed(path, "its bytes are not the same"))
    except OSError as error:
        raise InputError(_changed(path, str(error.strerror or error))) from error


def _changed(path: str, evidence: str) -> str:
    return (
        f"{path} has changed since it was first read ({evidence}): rows would be skipped or read twice. "
        "Put the old one back, or begin anew with an empty output folder"
    )
