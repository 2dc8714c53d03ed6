"""Keeps the results of tasks in a folder, and finds those that still hold: one file for each subject, or for all
canaries, in one shell.

A kept result holds if its key is the same (circumstances.py) and each file and folder that the task's processes have
read is as it was. Whatever cannot be read, told or compared is a miss. UNKNOWN is not kept, nor what connects to
anything, starts programs, writes outside its scratch folder or runs native code that no record shows.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from sinkproof.campaign.task import RunAgain, ShellOutcome, Task
from sinkproof.certifier.circumstances import (
    Circumstances,
    Unknown,
    circumstances_of,
    differing,
    digest_of,
    fingerprint,
    is_of_environment,
    key_of,
)
from sinkproof.certifier.task_processes import Failure
from sinkproof.chaos.processes.recorded_inputs import listing, read
from sinkproof.exploration.judged_runs import ALONE, JudgedRun
from sinkproof.reports.document import CanaryResult, plain, replace_file
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import fresh_folder

SHELLS: Final = ("simulated", "process")  # the JVM of Spark reads more than is recorded
BYTES_MOST: Final = 64 << 20  # a subject takes some hundred kilobytes in each shell
REPEATED: Final = 0.05  # this share of the runs of a kept result is run again, and of the canaries
# Installed packages with native code that reads nothing but what Python code gives it.
NATIVE: Final = frozenset(
    {"numpy", "numpy.libs", "_time_machine", "time_machine", "rpds", "markupsafe", "msgspec", "xxhash", "yaml", "_yaml"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """`again`: the task that repeats a part of its runs. `since`: when it was judged."""

    again: Task
    result: Any  # ShellOutcome; of the canaries, a list of CanaryResult
    since: str

    def differing(self, repeated: Any) -> str:
        """What ended otherwise; empty if nothing did."""
        if isinstance(repeated, RunAgain):
            return repeated.differing
        if not isinstance(repeated, Sequence):
            return str(getattr(repeated, "why", repeated))
        before = {canary.name: canary.convicted for canary in self.result}
        return next((each.name for each in repeated if each.convicted is not before.get(each.name)), "")

    def with_counts(self, repeated: Any) -> Any:
        """The result: what was run now, and what is kept, told apart."""
        if isinstance(repeated, RunAgain):
            shell, runs = self.result.result, len(self.again.again)
            counts = replace(
                shell,
                schedules_run=runs,
                schedules_kept=max(0, shell.schedules_run - runs),
                kills=repeated.kills,
                kills_kept=max(0, shell.kills - repeated.kills),
                seconds=round(repeated.seconds, 3),
                kept_since=self.since,
            )
            return replace(self.result, result=counts)
        anew = {canary.name: canary for canary in repeated}
        return [anew.get(canary.name) or replace(canary, kept_since=self.since) for canary in self.result]


@dataclass(slots=True)
class ResultStore:
    """`folder` None: nothing is kept, and nothing is found. `fresh`: nothing is found."""

    folder: Path | None
    fresh: bool
    journals: Path
    day: str = ""
    version: str = ""
    digests: Callable[[str], str] = digest_of  # before anything runs, each file is read once
    seed: int = 0
    around: dict[Task, Circumstances] = field(default_factory=dict)
    keys: dict[Task, str] = field(default_factory=dict)
    began: dict[Task, int] = field(default_factory=dict)  # in the time of files
    waiting: dict[Task, str] = field(default_factory=dict)  # results that `keep` may write
    unkept: list[str] = field(default_factory=list)  # why others are not
    discarded: str = ""  # why all of it was
    lock: ExitStack = field(default_factory=ExitStack)

    def find(self, task: Task, contract: Contract | None) -> KeptResult | None:
        """`contract`: of the task's subject; None: of the canaries."""
        if self.folder is None or task.shell not in SHELLS or (contract is not None and contract.kind != "sink"):
            return None
        if task.fan_out is not None:
            self._leave(task, "what processes on executors of Spark read is not recorded")
            return None
        try:
            self.around[task] = circumstances_of(task, contract, day=self.day, version=self.version)
            self.keys[task] = key_of(self.around[task])
            return None if self.fresh else _kept(self.path(task), task, seed=self.seed, digests=self.digests)
        except Unknown as unknown:
            self._leave(task, str(unknown))
        except (OSError, ValueError, TypeError, LookupError, AttributeError):  # unreadable
            pass
        return None

    def path(self, task: Task) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.keys[task]}.json"

    def recorded(self, task: Task) -> Task:
        """The same task, with a journal if its result may be kept."""
        if task not in self.keys:
            return task
        journal = self.journals / self.keys[task]
        journal.touch()
        self.began[task] = journal.stat().st_mtime_ns
        return replace(task, journal=str(journal))

    def take(self, task: Task, result: Any, contract: Contract | None) -> None:
        """The result of a recorded task. `keep` writes it, unless it is one that cannot be kept."""
        if task not in self.began or isinstance(result, Failure):
            return
        try:
            self.waiting[task] = _entry(self.journals / self.keys[task], result, began=self.began[task])
            now = circumstances_of(task, contract, day=self.day, version=fingerprint())
            if changed := differing(self.around[task], now):
                raise Unknown(f"{changed} has changed meanwhile")
        except (Unknown, OSError, ValueError) as why:
            self.waiting.pop(task, None)
            self._leave(task, str(why))

    def keep(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task in self.waiting:
                with suppress(OSError):  # no room: a miss
                    replace_file(self.path(task), self.waiting.pop(task))
        self._stay_in_bounds()

    def discard(self, why: str) -> None:
        assert self.folder is not None
        self.discarded = f"{why}: all kept results were discarded, and everything was run anew"
        for path in self.folder.glob("*.json"):
            path.unlink(missing_ok=True)

    def _leave(self, task: Task, why: str) -> None:
        self.unkept.append(f"{task.name} in the {task.shell} shell: {why}")

    def _stay_in_bounds(self) -> None:
        """The oldest ones go first."""
        if self.folder is None:
            return
        with suppress(OSError):  # another command removes them as well
            found = sorted(((path.stat(), path) for path in self.folder.glob("*.json")), key=_newest_first)
            room = BYTES_MOST
            for stat, path in found:
                room -= stat.st_size
                if room < 0:
                    path.unlink(missing_ok=True)


@contextmanager
def opened(folder: Path | None, *, fresh: bool = False) -> Iterator[ResultStore]:
    """The store in this folder. Commands that try canaries wait for each other, until `lock` is closed."""
    if folder is None:
        yield ResultStore(None, fresh, Path())
        return
    journals = fresh_folder()
    store = ResultStore(folder, fresh, journals, digests=cache(digest_of))
    try:
        with store.lock:
            try:
                store.lock.enter_context(one_at_a_time(folder / "lock"))
                moment = (folder / "lock").stat().st_mtime_ns
            except OSError as error:  # a folder of another user, or of a file system without locks
                store.folder = None
                store.unkept.append(f"{folder} cannot be used: {error.strerror or error}")
            else:
                store.version, store.seed = fingerprint(), moment
                store.day = f"{datetime.fromtimestamp(moment / 1e9):%Y-%m-%d}"
            yield store
    finally:
        shutil.rmtree(journals, ignore_errors=True)


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Among all processes that name the same file. The death of its holder releases the lock."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- one entry ---------------------------------------------------------------------------------------


def _entry(journal: Path, result: Any, *, began: int) -> str:
    """Its text: a digest of the rest, and the rest. Raises Unknown, OSError or ValueError where it cannot be kept."""
    recorded = read(journal)
    if recorded is None:
        raise Unknown("a process could not record what it reads")
    if recorded.beyond:
        what = recorded.beyond[0]  # a verb and its object, or what was called
        raise Unknown(f"a process {what if ' ' in what else f'calls {what}'}, and what that reads is not known")
    if isinstance(result, ShellOutcome) and result.unknowns:
        raise Unknown("UNKNOWN is not kept")
    if native := sorted(filter(_is_foreign, recorded.files)):
        raise Unknown(f"what {native[0]} reads or reaches is not seen, because it is native code")
    files = {name: digest_of(name) for name in sorted(recorded.files)}
    if irregular := [name for name in files if os.path.exists(name) and not files[name]]:
        raise Unknown(f"{irregular[0]} has no digest")
    changed = [name for name, digest in files.items() if digest and os.stat(name).st_ctime_ns >= began]
    changed += [name for name, listed in recorded.folders if listing(name) != listed]
    if changed:
        raise Unknown(f"{changed[0]} has changed meanwhile")
    judged = result.judged if isinstance(result, ShellOutcome) else [JudgedRun(ALONE, each.name, "") for each in result]
    plainly = plain(replace(result, judged=()) if isinstance(result, ShellOutcome) else result)
    since = f"{datetime.fromtimestamp(began / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    entry = {"since": since, "files": files, "folders": dict(recorded.folders), "judged": judged, "result": plainly}
    text = json.dumps(entry, ensure_ascii=False)
    return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def _is_foreign(file: str) -> bool:
    """A native library that came neither with the system nor with Python, and is not known to keep to itself."""
    _, installed, inside = file.replace("/dist-packages/", "/site-packages/").partition("/site-packages/")
    native = file.endswith(".so") or ".so." in file
    return native and (inside.split("/")[0].split(".cpython")[0] not in NATIVE if installed else not _of_system(file))


def _of_system(file: str) -> bool:
    return file.startswith(("/usr/", "/lib")) or is_of_environment(file)


def _kept(path: Path, task: Task, *, seed: int, digests: Callable[[str], str]) -> KeptResult | None:
    """Raises an error if it is damaged."""
    digest, _, text = path.read_text("utf-8").partition("\n")
    if digest != hashlib.sha256(text.encode()).hexdigest():
        return None
    entry = json.loads(text)
    if any(digests(name) != digest for name, digest in entry["files"].items()):
        return None
    if any(listing(name) != listed for name, listed in entry["folders"].items()):
        return None
    kind: Any = ShellOutcome if task.locator else list[CanaryResult]
    result = msgspec.convert(entry["result"], kind)
    judged = [JudgedRun(*each) for each in entry["judged"]]
    runs = result.result.schedules_run if isinstance(result, ShellOutcome) else len(result)
    again = Random(seed).sample(judged, min(ceil(REPEATED * runs), len(judged)))
    if not again:
        return None
    os.utime(path)
    return KeptResult(again=replace(task, again=tuple(again)), result=result, since=entry["since"])


def _newest_first(found: tuple[os.stat_result, Path]) -> float:
    return -found[0].st_mtime
