"""What the result of a task depends on, besides the files that its processes read: the key of a kept result.

Version and settings of everything around: sinkproof's own files, interpreter, kernel, packages, limits, the day. For
the sink of a user also the environment, the working directory, and every file in the contract's folder, because the
recorded inputs (recorded_inputs.py) do not show which files a sink only asks for.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sinkproof.campaign.task import Task
from sinkproof.chaos.processes.process_wide_state import LIMITS, umask
from sinkproof.chaos.processes.recorded_inputs import listing
from sinkproof.chaos.standard_library import STANDARD, is_installed
from sinkproof.reports.document import FILE_NAME, plain
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import scratch_homes
from sinkproof.subject.user_code import source_of

PACKAGES: Final = (
    "sinkproof",
    *(f"sinkproof.{name}" for name in ("chaos", "reference_engine", "reports", "sink_adapters")),
)
# Variables of terminals and sessions; of pytest, which changes one with each test.
OF_A_SESSION: Final = re.compile(
    r"_|SHLVL|PWD|OLDPWD|COLUMNS|LINES|TERM.*|WINDOWID|SSH_.*|XDG_SESSION.*|DBUS_.*|PYTEST_.*|SINKPROOF_FRESH"
)
OF_INTERPRETERS: Final = re.compile(r"PYTHON.*|SINKPROOF_.*|LC_.*|LANG|TZ|LD_.*")  # a canary reads no other variables
FILES_MOST: Final = 10_000  # in a contract's folder
NOT_OF_THE_CONTRACT: Final = ("pyvenv.cfg", FILE_NAME)  # folders with such a file: environments, and our own reports
LOCAL_TIME: Final = "/etc/localtime"
COMPILED: Final = "__pycache__"  # its files come and go, under passing names, too


class Unknown(Exception):
    """A circumstance that cannot be told, so that nothing can be kept."""


Circumstances = dict[str, Any]  # by what they are, each made of plain values


def key_of(circumstances: Circumstances) -> str:
    return hashlib.sha256(json.dumps(circumstances, sort_keys=True).encode()).hexdigest()[:32]


def differing(before: Circumstances, now: Circumstances) -> str:
    """What is not as it was: a file by its name. Empty if all is."""
    name = next((name for name in before if before[name] != now.get(name)), "")
    if name != "files":
        return name
    return str(min({tuple(file) for file in before[name]} ^ {tuple(file) for file in now[name]})[0])


def circumstances_of(task: Task, contract: Contract | None, *, day: str, version: str) -> Circumstances:
    """`contract`: of the task's subject; None: the canaries, which are ours. `version`: fingerprint. Raises Unknown."""
    is_users = contract is not None and not contract.is_ours
    path = [folder for folder in sys.path if contract is not None or is_of_environment(folder)]
    around = {
        "task": replace(task, again=(), journal=""),
        "day": day,
        "sinkproof": version,
        "interpreter": [sys.executable, *_time_and_size(sys.executable), path, sys.getfilesystemencoding()],
        "machine": [*platform.uname(), os.getuid(), sorted(os.sched_getaffinity(0)), umask()],
        "limits": [resource.getrlimit(getattr(resource, limit)) for limit in LIMITS],
        "packages": [listing(folder) for folder in path],
        "local time": digest_of(LOCAL_TIME),
        "scratch": [(home, home.stat().st_dev) for home in scratch_homes()[:1]],
        "variables": sorted(f"{name}={value}" for name, value in os.environ.items() if _counts(name, is_users)),
        "folder": os.getcwd() if contract is not None else "",
        "files": _files_around(contract) if contract is not None and is_users else (),
    }
    return dict(json.loads(json.dumps(plain(around))))


def _counts(variable: str, is_users: bool) -> bool:
    return not OF_A_SESSION.fullmatch(variable) and bool(is_users or OF_INTERPRETERS.fullmatch(variable))


def is_of_environment(path: str) -> bool:
    """Whether it came with Python, or was installed."""
    return is_installed(Path(path)) or f"{path}/".startswith((*STANDARD, f"{sys.base_prefix}/lib/"))


def fingerprint() -> str:
    """Of all files of sinkproof, the interpreter and the kernel."""
    digest = hashlib.sha256(f"{sys.version} {sys.flags.optimize} {platform.platform()}".encode())
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            files = (path for path in Path(folder).rglob("*") if path.is_file() and path.parent.name != COMPILED)
            for path in sorted(files):
                digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def digest_of(file: str) -> str:
    """Empty: there is no such file, or none that can be read. Of a folder: what is listed there."""
    if os.path.isdir(file):
        return f"folder: {listing(file)}"
    try:
        with open(file if os.path.isfile(file) else "", "rb") as contents:
            return hashlib.file_digest(contents, "blake2b").hexdigest()[:32]
    except OSError:
        return ""


def _files_around(contract: Contract) -> Sequence[tuple[str, int, int]]:
    """All files in the contract's folder, with times and sizes; without hidden ones, and those that this command prints
    into. Raises Unknown.
    """
    file = source_of(type(contract.given).__module__)
    if file is None or is_installed(file):
        return ()
    found = list(islice(_files_in(str(file.parent)), FILES_MOST))
    if len(found) == FILES_MOST:
        raise Unknown(f"{file.parent} holds {FILES_MOST:,} files or more, any of which may matter")
    return sorted(found)


def _files_in(folder: str) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError), os.scandir(folder) as listed:
        entries = [entry for entry in listed if not entry.name.startswith((".", COMPILED))]
        if any(entry.name in NOT_OF_THE_CONTRACT for entry in entries):
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_in(entry.path)
            elif not _is_printed_into(entry):
                yield entry.path, *_time_and_size(entry.path)


def _is_printed_into(entry: os.DirEntry[str]) -> bool:
    """By this command itself: its output was led there."""
    found = entry.stat(follow_symlinks=False)
    for descriptor in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(os.fstat(descriptor), found):
                return True
    return False


def _time_and_size(file: str) -> tuple[int, int]:
    found = os.lstat(file)
    return found.st_mtime_ns, found.st_size
