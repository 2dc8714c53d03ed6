"""Records what the code of a subject reads beside its scratch folder, for results that are kept.

One audit hook sees every file that is opened, every folder that is listed, every native module: imports, too. Each new
name is a line of the journal, a file to which all processes of one certification append: attempts, fork servers and
workers. What no digest can describe is a line as well: a connection, another program, a file that is written. A process
that cannot write to the journal removes it. The hook sees neither what native code opens nor which files
are only asked for.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from sinkproof.chaos.standard_library import defines_standard_module

WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
OF_THE_SYSTEM: Final = re.compile("/(?:proc|sys|dev(?!/shm/))/")  # in /dev/shm are plain files
MAPS: Final = "/proc/self/maps"
TELLS_NOTHING: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", MAPS)
COMPILED: Final = f"{os.sep}__pycache__{os.sep}"  # made of the source, which is recorded instead
OUTSIDE: Final = frozenset(  # audit events of what lies outside of this machine's files
    {
        *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"),
        *("socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"),
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "ctypes.dlsym"),
    }
)
# No audit event tells what these do.
UNSEEN: Final = frozenset(
    {
        *("_dbm", "_gdbm", "_posixshmem", "_xxsubinterpreters", "_interpreters"),
        *("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"),
    }
)
NOT_OURS: Final = ("sinkproof.sink_adapters", "sinkproof.canaries")  # these are subjects
_open, _write, _close, _remove = os.open, os.write, os.close, os.remove  # a subject may replace them


class InputRecording(NamedTuple):
    """What fork servers pass on. `apart`: beginnings of the names of scratch folders, which are not recorded."""

    journal: str
    apart: tuple[str, ...]


class Recorded(NamedTuple):
    files: frozenset[str]
    folders: tuple[tuple[str, str], ...]  # with what was listed there
    beyond: tuple[str, ...]  # what no digest describes


class _Record:
    """The one hook of this process."""

    current: InputRecording | None = None
    installed = False
    seen: Final[set[str]] = set()


def current() -> InputRecording | None:
    return _Record.current


def start(recording: InputRecording) -> None:
    """Records from now on, beginning with what is loaded."""
    _Record.current = recording
    _Record.seen.clear()
    if not _Record.installed:
        sys.addaudithook(_hook)
        _Record.installed = True
    note_loaded()


def note_loaded() -> None:
    """Modules, and native libraries: those that only other libraries load come with no audit event."""
    if _Record.current is None:
        return
    for module in list(sys.modules.values()):
        name = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(name, str):
            _note_file(os.path.abspath(name))
    with suppress(OSError), open(MAPS, encoding="utf-8", errors="surrogateescape") as maps:
        for name in {line.partition("/")[2].rstrip("\n") for line in maps if ".so" in line}:
            _note_file(f"/{name}")


def read(journal: Path) -> Recorded | None:
    """None: a process could not write to it."""
    from ast import literal_eval  # the processes of a subject never need it

    files, folders, beyond = set(), dict[tuple[str, str], None](), dict[str, None]()
    try:
        for line in journal.read_text("ascii").splitlines():
            kind, name, detail = literal_eval(line)
            if kind == "file":
                files.add(name)
            elif kind == "folder":
                folders[name, detail] = None
            else:
                beyond[f"{detail} {name}".strip()] = None
    except (OSError, ValueError, SyntaxError):
        return None
    return Recorded(frozenset(files), tuple(folders), tuple(beyond))


def listing(folder: str) -> str:
    """The names in a folder, without hidden ones; "" if there is no such folder."""
    try:
        return "/".join(sorted(name for name in os.listdir(folder) if not name.startswith((".", "__pycache__"))))
    except OSError:
        return ""


# -- the hook ----------------------------------------------------------------------------------------


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _Record.current is None:
        return
    note = NOTED.get(event)
    if note is not None:
        note(arguments)
    elif event in OUTSIDE and event not in _Record.seen and not _is_ours():
        _Record.seen.add(event)
        _append("beyond", "", event)


def _note_open(arguments: tuple[Any, ...]) -> None:
    name = _absolute(arguments[0])
    if name is None or _is_removal_in_folder(arguments):
        return
    writes = bool(arguments[2] & WRITING)
    if COMPILED in name:
        if writes:
            return
        with suppress(ValueError):
            source = importlib.util.source_from_cache(name)
            name = source if os.path.exists(source) else name
    if OF_THE_SYSTEM.match(name):
        _note_beyond(name, "reads") if name not in TELLS_NOTHING else None
    elif writes:
        _note_beyond(name, "writes")
    else:
        _note_file(name)


def _is_removal_in_folder(arguments: tuple[Any, ...]) -> bool:
    """Whether shutil.rmtree opens a folder by its name in another one, which is not the working directory."""
    name, mode, _ = arguments
    return mode is None and not os.path.isabs(name) and sys._getframe(3).f_globals.get("__name__") == "shutil"


def _note_folder(arguments: tuple[Any, ...]) -> None:
    name = _absolute("." if arguments[0] is None else arguments[0])
    if name is None or f"{name}/" in _Record.seen:
        return
    _Record.seen.add(f"{name}/")
    if not OF_THE_SYSTEM.match(name):
        _append("folder", name, listing(name))
    elif not _is_ours():
        _append("beyond", name, "lists")


def _note_import(arguments: tuple[Any, ...]) -> None:
    module, file = arguments[:2]
    if module in UNSEEN:
        _note_beyond(module, "imports")
    if isinstance(file, str):
        _note_file(os.path.abspath(file))


def _note_library(arguments: tuple[Any, ...]) -> None:
    if arguments[0] is not None:  # the import of ctypes opens this process itself
        _note_beyond(str(arguments[0]), "loads by ctypes")


def _note_database(arguments: tuple[Any, ...]) -> None:
    given = arguments[0]
    if isinstance(given, str) and given.startswith("file:"):
        given = unquote(urlsplit(given).path)
    name = _absolute(given)
    if given not in ("", ":memory:") and name is not None:
        _note_beyond(name, "opens the database")


def _note_change(names: Sequence[int], descriptors: Sequence[int], arguments: tuple[Any, ...]) -> None:
    """`names`, `descriptors`: which arguments these are. What is relative to a descriptor lies in a folder that was
    opened.
    """
    if any(arguments[at] not in (None, -1) for at in descriptors):
        return
    for name in filter(None, (_absolute(arguments[at]) for at in names)):
        if COMPILED not in f"{name}/":
            _note_beyond(name, "changes")


NOTED: Final[dict[str, Callable[[tuple[Any, ...]], None]]] = {
    "open": _note_open,
    "os.listdir": _note_folder,
    "os.scandir": _note_folder,
    "import": _note_import,
    "ctypes.dlopen": _note_library,
    "sqlite3.connect": _note_database,
    "os.mkdir": partial(_note_change, (0,), (2,)),
    "os.rename": partial(_note_change, (0, 1), (2, 3)),
    "os.remove": partial(_note_change, (0,), (1,)),
    "os.rmdir": partial(_note_change, (0,), (1,)),
    "os.link": partial(_note_change, (0, 1), (2, 3)),
    "os.symlink": partial(_note_change, (1,), (2,)),
    "os.truncate": partial(_note_change, (0,), ()),
}


def _absolute(given: Any) -> str | None:
    """None: a descriptor, which an earlier `open` has made, or a name in a scratch folder."""
    assert _Record.current is not None
    if not isinstance(given, (str, bytes, os.PathLike)):
        return None
    name = os.fsdecode(given)
    name = name if name.startswith("/") and ".." not in name else os.path.abspath(name)
    return None if name.startswith(_Record.current.apart) else name


def _note_file(name: str) -> None:
    if name not in _Record.seen:
        _Record.seen.add(name)
        _append("file", name, "")


def _note_beyond(name: str, what: str) -> None:
    """Each name once; nothing that sinkproof itself does, for which its own digest stands."""
    if f"{what} {name}" not in _Record.seen and not _is_ours():
        _Record.seen.add(f"{what} {name}")
        _append("beyond", name, what)


def _is_ours() -> bool:
    """Whether sinkproof itself called the audited function, perhaps by way of the standard library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module != __name__ and not defines_standard_module(frame.f_globals):
            return module.startswith("sinkproof.") and not module.startswith(NOT_OURS)
        frame = frame.f_back
    return False


def _append(*words: str) -> None:
    assert _Record.current is not None
    journal = _Record.current.journal
    try:
        descriptor = _open(journal, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            _write(descriptor, f"{words!a}\n".encode("ascii"))
        finally:
            _close(descriptor)
    except OSError:
        with suppress(OSError):
            _remove(journal)


def recording_of(journal: Path, homes: Sequence[Path], prefix: str) -> InputRecording:
    """`homes`: of scratch folders, all of which begin with `prefix`."""
    return InputRecording(str(journal), (str(journal), *(f"{home}{os.sep}{prefix}-" for home in homes)))
