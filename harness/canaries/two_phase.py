"""Two-phase sinks with one sin each; everything else is the control's."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from sinkproof.canaries.controls import FolderContract, TwoPhaseFiles
from sinkproof.sink_adapters.protocol import Batch, Context
from sinkproof.subject.claims import Claim


class PublishesInSnapshot(FolderContract):
    """R5: commits when it should only pre-commit, so that rows are visible before the checkpoint is complete."""

    class make(TwoPhaseFiles):  # noqa: N801
        def snapshot(self, checkpoint_id: int) -> bytes:
            state = super().snapshot(checkpoint_id)
            for name in self.pending.values():
                self.commit(name)
            return state


class ExitsWhenAskedToEnd(FolderContract):
    """Correct: SIGTERM ends the process by an exception, so that its file is closed; nothing is committed."""

    class make(TwoPhaseFiles):  # noqa: N801
        def open(self, context: Context) -> None:
            super().open(context)
            signal.signal(signal.SIGTERM, self.asked_to_end)

        def asked_to_end(self, *_: object) -> NoReturn:
            sys.exit(0)


class CommitsWhenAskedToEnd(ExitsWhenAskedToEnd):
    """R5: before it exits upon SIGTERM, it commits what is pre-committed, complete or not."""

    class make(ExitsWhenAskedToEnd.make):  # noqa: N801
        def asked_to_end(self, *_: object) -> NoReturn:
            for name in self.pending.values():
                self.commit(name)
            sys.exit(0)


class ForgetsPendingOnRestore(FolderContract):
    """R14: the restored handles are ignored, so that acknowledged rows without a notification are swept."""

    class make(TwoPhaseFiles):  # noqa: N801
        def restored(self) -> list[str]:
            return []


class CommitRaisesOnRepeat(FolderContract):
    """R11: a commit that succeeded before its process died fails each time that it is repeated."""

    class make(TwoPhaseFiles):  # noqa: N801
        def commit(self, name: str) -> None:
            if os.path.exists(self.folder / "out" / name):
                raise FileExistsError(name)
            super().commit(name)


class CommitCopiesAgain(FolderContract):
    """R1: copies the rows out and then drops the staged file: a crash between the two copies them again."""

    class make(TwoPhaseFiles):  # noqa: N801
        def commit(self, name: str) -> None:
            subtask, generation, checkpoint = name.split("-")
            fenced = self.folder / "fenced" / f"{subtask}-{generation}" / checkpoint
            staged = self.staged(name) if int(generation) == self.context.generation else fenced
            if not os.path.exists(staged):
                return
            rows = staged.read_bytes()
            with open(self.folder / "out" / f"{name}-by-{self.context.generation}", "wb", buffering=0) as file:
                file.write(rows)
            os.remove(staged)


class NamesByWhatIsPending(FolderContract):
    """R2: the checkpoint in a file's name is derived from pending ones, so that names repeat when none is pending."""

    class make(TwoPhaseFiles):  # noqa: N801
        def write(self, batch: Batch) -> None:
            self.next = max(self.pending, default=self.context.checkpoint_id_covered) + 1
            super().write(batch)


class SwallowsFailedRename(FolderContract):
    """R6: a rename that fails is ignored, and the transaction is forgotten."""

    class make(TwoPhaseFiles):  # noqa: N801
        def commit(self, name: str) -> None:
            with contextlib.suppress(OSError):
                super().commit(name)


class NoFlushInSnapshot(FolderContract):
    """R4: acknowledges rows that are still in a buffer of the process."""

    class make(TwoPhaseFiles):  # noqa: N801
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self.unflushed: list[BinaryIO] = []

        def flush(self, file: BinaryIO) -> None:
            self.unflushed.append(file)

        def notify_complete(self, checkpoint_id: int) -> None:
            for file in self.unflushed:
                file.close()
            self.unflushed.clear()
            super().notify_complete(checkpoint_id)


class SameNameShorterOverwrite(FolderContract):
    """R10: all attempts share one name for a staged file: a zombie that creates it again truncates it."""

    claims = Claim.EXACTLY_ONCE
    residue: Any = None  # the next attempt overwrites the files that are left

    class make(TwoPhaseFiles):  # noqa: N801
        def home(self, generation: int) -> Path:
            return self.folder / "staging" / str(self.context.subtask)

        def fence(self) -> None:
            os.makedirs(self.folder / "out", exist_ok=True)
            os.makedirs(self.home(0), exist_ok=True)

        def sweep(self) -> None:
            """Skipped."""

        def commit(self, name: str) -> None:
            subtask, _, checkpoint = name.split("-")
            if not os.path.exists(self.folder / "out" / name):
                os.rename(self.folder / "staging" / subtask / checkpoint, self.folder / "out" / name)


class UnfencedZombie(FolderContract):
    """R10: all attempts share one name for a staged file, and an old attempt may still write to it."""

    class make(SameNameShorterOverwrite.make):  # noqa: N801
        def sweep(self) -> None:
            for name in sorted(os.listdir(self.home(0))):
                os.remove(self.home(0) / name)

        def write(self, batch: Batch) -> None:
            if self.file is None:
                self.name = f"{self.context.subtask}-0-{self.next}"
                self.file = open(self.staged(self.name), "ab", buffering=0)  # noqa: SIM115
            super().write(batch)


class CloseRemovesPending(FolderContract):
    """R15: close() removes pre-committed files, although the next attempt may have to commit them."""

    class make(TwoPhaseFiles):  # noqa: N801
        def close(self) -> None:
            super().close()
            for name in self.pending.values():
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self.staged(name))


class NeverSweeps(FolderContract):
    """R11: files of dead attempts are never removed."""

    class make(TwoPhaseFiles):  # noqa: N801
        def sweep(self) -> None:
            """Skipped."""
