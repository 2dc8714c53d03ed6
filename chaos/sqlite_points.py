"""Makes what SQLite connections change below a folder points: the rows of a statement, the commit of a transaction.

SQLite asks an authorizer before it prepares a statement, a COMMIT included, which `with connection:` and
`connection.commit()` prepare each time. A statement that a connection keeps prepared is asked for once. Nothing that an
authorizer raises arrives at its caller: not for a shell in which `reach` raises to end an attempt.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final

from sinkproof.chaos.lines import FILE_READ
from sinkproof.chaos.wall_clock import Moved

ACTIONS: Final = {
    sqlite3.SQLITE_INSERT: "file.change_rows",
    sqlite3.SQLITE_UPDATE: "file.change_rows",
    sqlite3.SQLITE_DELETE: "file.change_rows",
}
WAITS_BY_ITSELF_SECONDS: Final = 5.0  # what `connect` makes SQLite wait for a lock, unless it is told otherwise
BUSY_TIMEOUT: Final = "busy_timeout"  # a PRAGMA
OWN_TABLES: Final = "sqlite_"  # those of SQLite itself
FAILED: Final = -1  # no answer of an authorizer: SQLite raises an OperationalError, as it does where a file is locked

_connect: Final = sqlite3.connect
Place = tuple[dict[str, Any], str]  # the names of a module, and the one that is the function `connect`


class Waits:
    """For locks. Where others wait too long for an attempt, they give up sooner: a run takes seconds, not minutes. Not
    if they wait no longer than SQLite does by itself.
    """

    seconds_most: ClassVar[float | None] = None  # None: as long as the code says


class _Noted:
    """Before any fork: modules that have imported the function `connect`, with their files."""

    places: ClassVar[list[tuple[str, Place]] | None] = None  # None: not noted


def note_before_forks() -> None:
    """For a process that imports nothing more, and forks processes with such points. In each of them, to look at all
    modules would copy 500 pages of memory: a third of those that an attempt copies.
    """
    _Noted.places = _places()


def _places() -> list[tuple[str, Place]]:
    return [
        (getattr(module, "__file__", None) or "", (vars(module), name))
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
        for name in [name for name, it in vars(module).items() if it is _connect]
    ]


@contextmanager
def sqlite_points(
    folder: Path, reach: Callable[[str], None], *, files: Collection[str] = (), reads: bool = False
) -> Iterator[None]:
    """`reach` is called right before changes by connections that are made within the block; an OSError that it raises
    becomes an OperationalError of the statement. `files`: modules that may have imported the function `connect`.
    `reads`: it is called before queries, too.
    """
    noted = _places() if _Noted.places is None else _Noted.places
    places = [place for file, place in noted if file in files]
    places += [(vars(module), "connect") for module in (sqlite3, sqlite3.dbapi2)]
    actions = {**ACTIONS, sqlite3.SQLITE_SELECT: FILE_READ} if reads else ACTIONS
    connect = partial(_connect_watched, os.path.abspath(folder) + os.sep, _authorizer(reach, actions))
    for there, name in places:
        there[name] = connect
    try:
        yield
    finally:
        for there, name in places:
            there[name] = _connect


def _connect_watched(folder: str, authorizer: Callable[..., int], database: Any, *arguments: Any, **named: Any) -> Any:
    connection = _connect(database, *arguments, **named)
    if Waits.seconds_most is not None:
        (waits,) = connection.execute("PRAGMA busy_timeout").fetchone()
        if waits > 1000 * WAITS_BY_ITSELF_SECONDS:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * Waits.seconds_most)}")
    path = os.fsdecode(database).removeprefix("file:").partition("?")[0]
    if os.path.abspath(path).startswith(folder):
        connection.set_authorizer(authorizer)
    if Moved.is_moved:
        from sinkproof.chaos.sqlite_clock import go_by_pythons_clock

        go_by_pythons_clock(connection)
    return connection


def _milliseconds(setting: str | None) -> int:
    """As SQLite reads it: the digits that it begins with; none: it is asked for, or switched off."""
    found = re.match(r"\s*(\d+)", setting or "")
    return int(found[1]) if found else 0


def _authorizer(reach: Callable[[str], None], actions: Mapping[int, str]) -> Callable[..., int]:
    def authorize(action: int, about: str | None, value: str | None, *_: object) -> int:
        """`about`: the table, the word that ends or begins a transaction, or a setting, which gets this value."""
        point = actions.get(action, "") if not (about or "").startswith(OWN_TABLES) else ""
        if action == sqlite3.SQLITE_TRANSACTION and about == "COMMIT":
            point = "file.commit"
        if action == sqlite3.SQLITE_PRAGMA and about == BUSY_TIMEOUT and Waits.seconds_most is not None:
            return sqlite3.SQLITE_IGNORE if _milliseconds(value) > 1000 * WAITS_BY_ITSELF_SECONDS else sqlite3.SQLITE_OK
        if point:
            try:
                reach(point)
            except OSError:
                return FAILED
        return sqlite3.SQLITE_OK

    return authorize
