"""Transactional files: open, then pending, then committed by one atomic rename.

    staging/<sink>-<subtask>/g<generation>/<sequence>-<part>.open      rows are being written
    staging/<sink>-<subtask>/g<generation>/<sequence>-<part>.pending   pre-committed: synced, never written again
    fenced/<sink>-<subtask>/g<generation>-<by generation>/...          the same folder after fencing
    committed/<sink>/<bucket>/part-<sequence>-<subtask>-<generation>-<part>.jsonl

A new attempt renames the folders of earlier ones before it settles anything. After that a zombie's paths do not exist:
it can neither continue nor restore its transactions, and gets `Fenced`. No file is ever resumed: rows that an attempt
did not pre-commit are replayed, so that no file is truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import msgspec

from sinkproof.sink_adapters.files.file_system import Files, PartFile, part_name
from sinkproof.sink_adapters.files.row_formats import JSON_LINES, FileFormat
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Fenced, Row
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.snapshot_bytes import COMPACT

ROLL_BYTES: Final = 128 << 20  # suits file systems for large files; the cost of one more file is negligible
NO_BUCKET: Final = ""


class FileTransactions:
    """The target of TwoPhaseCommitSink. One transaction at a time; part files rolled by size and at each checkpoint.

    `bucket`: the folder of a row, relative, with slashes. Handles are JSON: the transaction's name, and the bucket of
    each of its parts.
    """

    def __init__(
        self,
        files: Files,
        *,
        form: FileFormat = JSON_LINES,
        roll_bytes: int = ROLL_BYTES,
        bucket: Callable[[Row], str] | None = None,
    ) -> None:
        self.files, self.form, self.roll_bytes, self.bucket = files, form, roll_bytes, bucket
        self._open: dict[str, tuple[int, PartFile]] = {}  # by bucket: its number, and the part
        self._buckets: list[str] = []  # of each part of the current transaction, closed or open
        self._fenced: dict[str, list[str]] = {}  # of earlier attempts: `<sink>-<subtask>/g<generation>` -> folders
        self._made: set[str] = set()  # committed folders that exist

    def attach(self, context: Context) -> None:
        self.files.reach = context.reach
        self.sink, self.generation = quote(context.sink_id, safe=""), context.generation
        self._live = f"staging/{self.sink}-{context.subtask}/g{context.generation}"

    # -- earlier attempts -------------------------------------------------------------------------

    def fence(self, owner: Owner, generation: int) -> None:
        """Renames the folders of earlier attempts. An attempt that was killed before `ready` has none."""
        for folder in self._folders_of(owner, "staging"):
            attempts = {int(name[1:]): name for name in self.files.list(f"staging/{folder}")}
            if attempts and max(attempts) > generation:
                raise Fenced(f"generation {generation} of {folder} has been replaced by {max(attempts)}")
            for earlier in sorted(attempts):
                if earlier < generation:
                    self._take_away(folder, attempts[earlier])
        self._note_fenced(owner)

    def _folders_of(self, owner: Owner, home: str) -> Iterator[str]:
        for folder in self.files.list(home):
            sink, _, subtask = folder.rpartition("-")
            if sink == self.sink and owner.owns(int(subtask)):
                yield folder

    def _take_away(self, folder: str, attempt: str) -> None:
        """The new name contains our generation: a zombie may have made its folder again after an earlier rename."""
        self.files.make_directory(f"fenced/{folder}")
        try:
            self.files.rename(f"staging/{folder}/{attempt}", f"fenced/{folder}/{attempt}-{self.generation}")
        except FileNotFoundError:
            return  # another attempt, by now killed or a zombie, was first
        self.files.fsync_directory(f"fenced/{folder}")

    def _note_fenced(self, owner: Owner) -> None:
        for folder in self._folders_of(owner, "fenced"):
            for name in self.files.list(f"fenced/{folder}"):
                attempt = name.partition("-")[0]
                self._fenced.setdefault(f"{folder}/{attempt}", []).append(f"fenced/{folder}/{name}")

    def lingering(self, owner: Owner, before_generation: int) -> list[str]:
        """The renamed folders: all that the restored checkpoint promised has been committed from them by now."""
        return sorted(folder for folders in self._fenced.values() for folder in folders)

    def abort(self, transaction: str) -> None:
        """A folder that `lingering` named, or the current transaction."""
        if transaction.startswith("fenced/"):
            self._remove_folder(transaction)
            return
        for _, part in self._open.values():
            part.close()
        prefix = f"{_sequence(Transaction.parse(transaction))}-"
        for name in self.files.list(self._live):
            if name.startswith(prefix):
                self.files.unlink_if_there(f"{self._live}/{name}")
        self._open, self._buckets = {}, []

    def _remove_folder(self, folder: str) -> None:
        for name in self.files.list(folder):
            self.files.unlink_if_there(f"{folder}/{name}")
        with suppress(FileNotFoundError):  # removed by an attempt that was killed, or that is a zombie
            self.files.remove_directory(folder)

    def ready(self) -> None:
        self.files.make_directory(self._live)

    # -- rows -------------------------------------------------------------------------------------

    def begin(self, transaction: Transaction) -> None:
        self._buckets = []

    def write(self, transaction: Transaction, batch: Batch) -> None:
        if self.bucket is None:
            self._write(transaction, NO_BUCKET, batch)
            return
        parts: dict[str, list[Row]] = {}
        for row in batch.rows:
            parts.setdefault(self.bucket(row), []).append(row)
        for bucket in sorted(parts):
            self._write(transaction, _checked(bucket), Batch(parts[bucket]))

    def _write(self, transaction: Transaction, bucket: str, batch: Batch) -> None:
        if bucket not in self._open:
            self._create(transaction, bucket)
        _, part = self._open[bucket]
        if part.add(batch) >= self.roll_bytes:
            self._roll(transaction, bucket)

    def _create(self, transaction: Transaction, bucket: str) -> None:
        number = len(self._buckets) + 1
        path = f"{self._live}/{_sequence(transaction)}-{number:04d}.open"
        try:
            part = PartFile(self.files, path, self.form.writer())
        except FileNotFoundError as error:
            raise self._was_fenced() from error
        self._buckets.append(bucket)
        self._open[bucket] = number, part

    def _was_fenced(self) -> Fenced:
        return Fenced(f"{self._live} is gone: a newer attempt has renamed it")

    def _roll(self, transaction: Transaction, bucket: str) -> None:
        """Written, synced, closed, and only then pending."""
        number, part = self._open.pop(bucket)
        part.finish()
        path = f"{self._live}/{_sequence(transaction)}-{number:04d}"
        try:
            self.files.rename(f"{path}.open", f"{path}.pending")
        except FileNotFoundError as error:
            raise self._was_fenced() from error

    def pre_commit(self, transaction: Transaction) -> bytes:
        for bucket in sorted(self._open):
            self._roll(transaction, bucket)
        try:
            self.files.fsync_directory(self._live)
        except FileNotFoundError as error:
            raise self._was_fenced() from error
        handle = COMPACT.encode([transaction, self._buckets]).encode()
        self._buckets = []
        return handle

    # -- outcomes ---------------------------------------------------------------------------------

    def commit(self, handle: bytes) -> CommitOutcome:
        """From any process. Each part that the handle names is pending, or fenced, or committed, or lost."""
        name, buckets = msgspec.json.decode(handle)
        transaction = Transaction.parse(name)
        outcomes = {self._commit_part(transaction, number, bucket) for number, bucket in enumerate(buckets, start=1)}
        if CommitOutcome.LOST in outcomes:
            return CommitOutcome.LOST
        for folder in sorted({self._folder(bucket) for bucket in buckets}):
            self.files.fsync_directory(
                folder
            )  # also if the rename was done before: its attempt may have been killed before this line
        return CommitOutcome.COMMITTED if CommitOutcome.COMMITTED in outcomes else CommitOutcome.ALREADY

    def _commit_part(self, transaction: Transaction, number: int, bucket: str) -> CommitOutcome:
        staged = f"{_sequence(transaction)}-{number:04d}.pending"
        final = f"{self._folder(bucket)}/{part_name(transaction, number, self.form)}"
        places = self._places(transaction)
        if self.files.exists(final):
            self._compare(final, [f"{place}/{staged}" for place in places])
            return CommitOutcome.ALREADY
        if bucket not in self._made:
            self.files.make_directory(self._folder(bucket))
            self._made.add(bucket)
        for place in places:
            try:
                self.files.rename(f"{place}/{staged}", final)
            except FileNotFoundError:
                continue
            return CommitOutcome.COMMITTED
        if self.files.exists(final):
            return CommitOutcome.ALREADY  # by a zombie, just now
        if transaction.generation == self.generation and not self.files.exists(self._live):
            raise self._was_fenced()
        return CommitOutcome.LOST

    def _places(self, transaction: Transaction) -> Iterable[str]:
        """Folders that may hold its pending files. An attempt never searches for its own in fenced folders."""
        attempt = f"{self.sink}-{transaction.subtask}/g{transaction.generation}"
        if transaction.generation == self.generation:
            return [f"staging/{attempt}"]
        return [*self._fenced.get(attempt, ()), f"staging/{attempt}"]

    def _folder(self, bucket: str) -> str:
        return f"committed/{self.sink}/{bucket}" if bucket else f"committed/{self.sink}"

    def _compare(self, final: str, staged: Iterable[str]) -> None:
        """After a power loss both can exist with equal rows. If they differ, two jobs share this folder."""
        for path in staged:
            if self.files.exists(path) and self.files.read(path) != self.files.read(final):
                raise FileExistsError(
                    f"{path} is to become {final}, which exists and holds other rows: two jobs write to one folder, or "
                    "generations started again. Give each job a folder of its own"
                )

    def close(self) -> None:
        for _, part in self._open.values():
            part.close()
        self._open = {}


def _sequence(transaction: Transaction) -> str:
    """Zero-padded, so that the order of names is the order of checkpoints."""
    return f"{transaction.sequence:08d}"


def _checked(bucket: str) -> str:
    if bucket.startswith("/") or bucket.endswith("/") or ".." in bucket.split("/") or not bucket:
        raise ValueError(f"bucket {bucket!r}: it must be a relative folder, such as 'day=2024-05-01'")
    return bucket
