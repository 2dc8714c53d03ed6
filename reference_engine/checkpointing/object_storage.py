"""Checkpoints as objects: in stores without renames, where an object is there or is not.

    chk-12-700003/sink[0]-6f1d0c24.state   one subtask's snapshot, by generation 700003; never changed
    log/000000000007                       one line of the job's history: a claimed generation, or a decision
    job.json                               which job it is, as its owner says; never changed

Each line of the log is created under the next free number, and only if no object has that number yet: the decision of a
checkpoint is one such object. Claiming a generation takes a line, too; so a superseded coordinator finds its next line
taken, however late it resumes, and is fenced. A generation stores and removes snapshots in folders of its own and of
those before it, so one that is superseded cannot touch what is decided after it. A line holds all that is true from
then on, so that the newest one suffices. Lines are never removed: a removed number would be free again.

A request may fail and be carried out all the same, even later. So a line with an unknown outcome is settled before the
coordinator goes on: an empty line under its number succeeds, or finds what was written there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sinkproof.reference_engine.checkpointing.checkpoint_encoding_and_digests import (
    Reference,
    States,
    decode_checkpoint,
    encode_decision,
    encode_snapshot,
    newest_trusted,
)
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.exclusive_creation import refuse_unfit_store
from sinkproof.reference_engine.checkpointing.folder_storage import say_on_stderr
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, DamagedCheckpoint
from sinkproof.reference_engine.checkpointing.object_store import ObjectStore
from sinkproof.sink_adapters.protocol import Fenced

DIGITS: Final = 12
JOB: Final = "job.json"
EMPTY_LINE: Final = b"{}"
SNAPSHOTS: Final = re.compile(r"chk-\d+-(?P<generation>\d+)")  # a folder of one generation's


class DecisionInDoubt(Exception):
    """The store answers neither whether the decision is there nor lets it be ruled out: the next coordinator finds out.

    No OSError: after one of those the coordinator would abort the checkpoint, and the decision might still arrive.
    """


class _Decided(NamedTuple):
    generation: int
    decision: str  # as encoded


class _Line(NamedTuple):
    """What holds from this line on."""

    generation: int = FIRST_GENERATION - 1
    complete: dict[int, _Decided] = {}  # noqa: RUF012 - nothing changes it: each line has one of its own

    def encoded(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    def folder(self, checkpoint_id: int) -> str:
        return _folder(checkpoint_id, self.complete[checkpoint_id].generation)


class ObjectCheckpointStorage:
    """A CheckpointStorage. A coordinator claims a generation in order to decide; an attempt is given one, and stores.

    Raises OSErrors of the store, and UnfitStore for one that could not fence; reports each damaged checkpoint that it
    skips, and what it could not remove.
    """

    def __init__(
        self,
        objects: ObjectStore,
        *,
        retained: int = 1,
        generation: int = 0,
        say: Callable[[str], None] = say_on_stderr,
    ) -> None:
        self.objects, self.retained, self.generation, self.say = objects, retained, generation, say
        self.version = 0
        self._seen = 0  # a line's number: the search for the newest one begins there
        self._own: _Line | None = None  # the last line that the owner of a generation has written
        self._own_number = 0  # its number. What is read never moves it: that line may be a newer generation's
        self._is_probed = False
        self._passed_over: set[int] = set()

    @property
    def url(self) -> str:
        return self.objects.url

    # -- the log -------------------------------------------------------------------------------------

    def claim_generation(self) -> int:
        """Durably takes the next generation, and with it the next line. Before it decides there, the store is tried."""
        while True:
            line = self._newest()
            claimed = line._replace(generation=line.generation + 1)
            number = self._seen + 1
            if self.objects.create(_name(number), claimed.encoded()):
                break
        self._own_number, self._own, self.generation = number, claimed, claimed.generation
        if not self._is_probed:
            refuse_unfit_store(self.objects, generation=self.generation)
            self._is_probed = True
        self._sweep(claimed)
        self.version += 1
        return self.generation

    def _sweep(self, line: _Line) -> None:
        """Removes what the dead have left: no older generation can decide it any more."""
        complete = {line.folder(checkpoint_id) for checkpoint_id in line.complete}
        for folder in self.objects.list("")[0]:
            ours = SNAPSHOTS.fullmatch(folder)
            if ours and folder not in complete and int(ours["generation"]) < self.generation:
                self._remove(folder)

    def _newest(self) -> _Line:
        """The newest whole line. Numbers have no gaps, so it is found in logarithmic time."""
        step = 1
        while self.objects.exists(_name(self._seen + step)):
            self._seen, step = self._seen + step, 2 * step
        while step > 1:
            step //= 2
            if self.objects.exists(_name(self._seen + step)):
                self._seen += step
        return next((line for at in range(self._seen, 0, -1) if (line := self._line(at)) is not None), _Line())

    def _line(self, number: int) -> _Line | None:
        """None of an empty one, which keeps its number."""
        data = self.objects.read(_name(number))
        try:
            held: dict[str, Any] = json.loads(data)
            complete = {int(number): _Decided(*decided) for number, decided in held["complete"].items()}
            return _Line(int(held["generation"]), complete)
        except (ValueError, KeyError, TypeError) as error:
            if data != EMPTY_LINE:
                self.say(f"line {number} of the log at {self.url} is torn or was overwritten ({error!r}): passed over")
            return None

    def _append(self, line: _Line) -> None:
        """Raises Fenced if a newer generation has this line, and an OSError if it will never be written."""
        number, data = self._own_number + 1, line.encoded()
        try:
            is_written = self.objects.create(_name(number), data)
        except OSError:
            if self._settle(number):
                self._own_number = number
                raise
            is_written = False
        if not (is_written or self._holds(number, data)):
            raise Fenced(f"generation {self.generation} at {self.url} was superseded by a newer one")
        self._own_number, self._own = number, line

    def _settle(self, number: int) -> bool:
        """Whether the line is ruled out: an empty one has its number."""
        try:
            is_written = self.objects.create(_name(number), EMPTY_LINE)
        except OSError as error:
            raise DecisionInDoubt(f"{self.url} does not say whether line {number} is there: {error}") from error
        return is_written or self._holds(number, EMPTY_LINE)

    def _holds(self, number: int, data: bytes) -> bool:
        """Whether this is the line with that number. An error of the store must not look like a decision not made."""
        try:
            return self.objects.read(_name(number)) == data
        except OSError as error:
            raise DecisionInDoubt(f"{self.url} does not say what line {number} holds: {error}") from error

    def owner(self, job: bytes) -> bytes:
        """Which job keeps its checkpoints here: this one, if none did before. Claims nothing."""
        return job if self.objects.create(JOB, job) else self.objects.read(JOB)

    # -- writing -------------------------------------------------------------------------------------

    def store(self, checkpoint_id: int, subtask: str, states: States) -> Reference:
        """Durable on return, and void without a decision."""
        if not self.generation:
            raise ValueError(f"cannot write to {self.url}: claim a generation first, or pass one")
        reference, data = encode_snapshot(subtask, states)
        self.objects.put(f"{_folder(checkpoint_id, self.generation)}/{reference.file}", data)
        return reference

    def decide(self, record: CheckpointRecord) -> None:
        """Durable on return. An OSError means that the checkpoint is not complete and never will be."""
        before, checkpoint_id = self._owned(), record.checkpoint_id
        if checkpoint_id < max(before.complete, default=0):
            return  # a newer decision is durable, and subsumes this one
        decided = _Decided(self.generation, encode_decision(record).decode())
        older = {number: each for number, each in before.complete.items() if number < checkpoint_id}
        self._append(before._replace(complete=dict([*older.items(), (checkpoint_id, decided)][-self.retained :])))
        self.version += 1
        self._remove_dropped(before)

    def discard(self, checkpoint_id: int) -> None:
        """Removes an aborted checkpoint's snapshots; 0 removes every checkpoint."""
        before = self._owned()
        if checkpoint_id == 0:
            self._append(before._replace(complete={}))
            self._remove_dropped(before)
        elif checkpoint_id not in before.complete:
            self._remove(_folder(checkpoint_id, self.generation))
        self.version += 1

    def _owned(self) -> _Line:
        if self._own is None:
            raise ValueError(f"cannot decide at {self.url}: claim a generation first")
        return self._own

    def _remove_dropped(self, before: _Line) -> None:
        after = self._owned()
        kept = {after.folder(checkpoint_id) for checkpoint_id in after.complete}
        for folder in {before.folder(checkpoint_id) for checkpoint_id in before.complete} - kept:
            self._remove(folder)

    def _remove(self, folder: str) -> None:
        """What cannot be removed is reported and left: a durable decision must not fail."""
        try:
            self.objects.delete([f"{folder}/{name}" for name in self.objects.list(folder)[1]])
        except OSError as error:
            self.say(f"could not remove {folder} at {self.url} ({error.strerror}); it is of no use any more")

    # -- reading -------------------------------------------------------------------------------------

    def complete(self) -> list[int]:
        """The ids that can be restored, ascending."""
        return sorted(self._newest().complete)

    def load(self, checkpoint_id: int) -> CheckpointRecord:
        """One complete checkpoint, its references resolved, every digest checked; DamagedCheckpoint otherwise."""
        return self._load(self._newest(), checkpoint_id)

    def _load(self, line: _Line, checkpoint_id: int) -> CheckpointRecord:
        decision, folder = line.complete[checkpoint_id].decision.encode(), line.folder(checkpoint_id)
        held = _Object(f"{self.url}: checkpoint {checkpoint_id}", lambda: decision)
        return decode_checkpoint(held, checkpoint_id, lambda file: self._object(f"{folder}/{file}"))

    def latest(self) -> CheckpointRecord | None:
        """The newest that can be trusted; damaged newer ones are named aloud, once."""
        record, damaged = self._trusted(self._newest())
        for checkpoint_id, error in damaged.items():
            self._pass_over(checkpoint_id, error)
        if record is None and damaged:
            raise DamagedCheckpoint(
                f"no checkpoint at {self.url} can be trusted ({len(damaged)} found). The newest: "
                f"{damaged[max(damaged)]}. Bring the objects back, or name another URL to begin without a checkpoint"
            )
        return record

    def _trusted(self, line: _Line) -> tuple[CheckpointRecord | None, dict[int, DamagedCheckpoint]]:
        """What is missing may have been removed meanwhile, after a newer decision: then that one counts."""
        record, damaged = newest_trusted(line.complete, lambda checkpoint_id: self._load(line, checkpoint_id))
        for error in damaged.values():
            if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
                raise error.__cause__  # the store did not answer, so that it is not known whether anything is damaged
        newest = self._newest() if damaged else line
        return (record, damaged) if newest.complete == line.complete else self._trusted(newest)

    def _pass_over(self, checkpoint_id: int, error: DamagedCheckpoint) -> None:
        if checkpoint_id not in self._passed_over:
            self._passed_over.add(checkpoint_id)
            self.say(
                f"checkpoint {checkpoint_id} is damaged and passed over: {error}. An older one is used instead: what "
                "was read since is replayed, and targets may show it twice"
            )

    def _object(self, name: str) -> _Object:
        return _Object(f"{self.url.rstrip('/')}/{name}", lambda: self.objects.read(name))


def _name(number: int) -> str:
    return f"log/{number:0{DIGITS}}"


def _folder(checkpoint_id: int, generation: int) -> str:
    return f"chk-{checkpoint_id}-{generation}"


class _Object(NamedTuple):
    """A `Readable` of the store."""

    where: str
    read_bytes: Callable[[], bytes]

    def __str__(self) -> str:
        return self.where
