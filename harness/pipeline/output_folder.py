"""The output folder of a pipeline, which belongs to one job. `.sinkproof` in it says which, and holds the lock.

    DIR/...                      what the sink writes
    DIR/.sinkproof/job.json      which job this is: sink, columns, input; written before the first row is read
    DIR/.sinkproof/lock          held by the running command; released however the command ends
    DIR/.sinkproof/checkpoints   where the job continues; unless that is at a URL

Everything else in `.sinkproof` belongs to one command: its events, the points that were passed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_storage import JOB, ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.open_storage import is_folder, storage_at
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reports.document import replace_file

HOME: Final = ".sinkproof"
FOR_SUCCESSORS: Final = ("name", "begins")  # by the name, successors on another machine find transactions of the dead
IDENTITY: Final = ("command", "sink", "key", "input", "output", "checkpoints")
SCHEMA: Final = "sinkproof/pipeline/1"
OF_ONE_COMMAND: Final = ("events", "armed", "stop", "driver.pid")  # removed when the next command begins


class PipelineError(ValueError):
    """The pipeline cannot run with these arguments. The message names what was found and the next step."""


class PipelineFolder:
    """Made by `locked`, which holds the lock."""

    def __init__(self, path: Path, *, checkpoints: str = "") -> None:
        self.path, self.home, self.checkpoints = path, path / HOME, checkpoints
        self.run = RunFolder(self.home)

    def storage(self) -> FolderCheckpointStorage | ObjectCheckpointStorage:
        """Raises PipelineError if there is nothing of the kind."""
        try:
            if self.checkpoints and is_folder(self.checkpoints):
                raise PipelineError(
                    f"{self.checkpoints} is a folder and no object store: leave --checkpoints out, or give etl and "
                    "windows the folder as a path"
                )
            return storage_at(self.checkpoints or str(self.run.checkpoints))
        except ValueError as error:  # of the configuration, or of a URL that cannot be read
            raise PipelineError(str(error)) from error

    def clear(self) -> None:
        """Removes what an earlier command left. Its orphaned processes keep their unlinked files for a moment."""
        for name in OF_ONE_COMMAND:
            (self.home / name).unlink(missing_ok=True)
        shutil.rmtree(self.home / "points", ignore_errors=True)
        self.run = RunFolder(self.home)

    # -- which job ---------------------------------------------------------------------------------

    def earlier(self) -> dict[str, Any] | None:
        """The job that this folder belongs to, or the checkpoints at its URL: on another machine the folder is new."""
        return self._in_folder() or self._at_url()

    def _at_url(self) -> dict[str, Any] | None:
        storage = self.storage() if self.checkpoints else None
        if not isinstance(storage, ObjectCheckpointStorage):
            return None
        try:
            job: dict[str, Any] = json.loads(storage.objects.read(JOB))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise PipelineError(f"{JOB} at {self.checkpoints} cannot be read ({error}): name another URL") from error
        return job

    def _in_folder(self) -> dict[str, Any] | None:
        try:
            job: dict[str, Any] = json.loads((self.home / "job.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise PipelineError(
                f"{self.home / 'job.json'} cannot be read ({error}): name an empty folder, or bring the file back"
            ) from error
        return job

    def keep(self, job: Mapping[str, Any]) -> None:
        replace_file(self.home / "job.json", json.dumps({"schema": SCHEMA, **job}, indent=1))

    def refuse_another(self, job: Mapping[str, Any]) -> None:
        """Another job would mix its rows with those in the folder."""
        earlier = self._in_folder()
        if earlier is not None:
            _refuse_another(earlier, job, where=self.path, other="another folder with --out")

    def refuse_another_at_url(self, job: Mapping[str, Any], storage: ObjectCheckpointStorage) -> None:
        """A folder on another machine does not know the job. The output must be the same: it has a part of the rows."""
        ours = {name: job.get(name) for name in IDENTITY} | {"output": job.get("output", str(self.path))}
        ours |= {name: job[name] for name in FOR_SUCCESSORS if name in job}
        earlier = json.loads(storage.owner(json.dumps(ours).encode()))
        _refuse_another(earlier, ours, where=storage.url, other="another URL with --checkpoints")
        if earlier.get("name") != ours.get("name"):
            raise PipelineError(
                f"the same job at {storage.url} has begun on another machine under the name {earlier.get('name')!r}: "
                "give this command again to continue it"
            )
        if "output" not in job and self._in_folder() is None and storage.complete():
            raise PipelineError(
                f"{storage.url} continues a job that has put its rows into {self.path}, and that folder holds none of "
                "them: bring it back, or name another URL with --checkpoints"
            )

    @property
    def finished(self) -> int:
        """The final checkpoint, once all of its rows are committed; 0 before that."""
        return int((self.earlier() or {}).get("finished", 0))


def _refuse_another(earlier: Mapping[str, Any], job: Mapping[str, Any], *, where: object, other: str) -> None:
    for name in IDENTITY:
        if earlier.get(name) != job.get(name):
            raise PipelineError(
                f"{where} belongs to another job: its {name} was {earlier.get(name)!r}, and now is {job.get(name)!r}. "
                f"Give the same arguments to continue it, or name {other}"
            )


@contextmanager
def locked(path: Path, *, checkpoints: str = "") -> Iterator[PipelineFolder]:
    """The folder, for this command alone. Raises PipelineError if another command holds it, or if it cannot be used.

    `checkpoints`: their URL. Commands on other machines may use it, too: the newest of them fences the others.
    """
    _refuse_other_files(path)
    try:
        (path / HOME).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / HOME / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise PipelineError(
            f"{path} cannot be written to ({error.strerror or error}): name another folder with --out"
        ) from error
    try:
        _take(descriptor, path)
        yield PipelineFolder(path, checkpoints=checkpoints)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        raise PipelineError(
            f"another command (process {owner}) uses {path}: wait until it has ended, or stop it with Ctrl-C"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _refuse_other_files(path: Path) -> None:
    try:
        names: Sequence[str] = sorted(os.listdir(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise PipelineError(
            f"{path} cannot be used as a folder ({error.strerror or error}): name another one with --out"
        ) from error
    if names and HOME not in names:
        raise PipelineError(
            f"{path} holds files of something else ({', '.join(names[:3])}): name an empty or a new folder with --out"
        )
