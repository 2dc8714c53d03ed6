"""SQLite's own functions for the time go by the wall clock that Python shows, where that is moved.

SQLite asks the system for the time in native code, which shows the true one.
"""

from __future__ import annotations

import sqlite3
import time
from functools import partial
from typing import Any, Final

OF_NOW: Final = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}
TIME_IS_ARGUMENT: Final = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}


def go_by_pythons_clock(connection: sqlite3.Connection) -> None:
    for name, at in TIME_IS_ARGUMENT.items():
        connection.create_function(name, -1, partial(_asked, name, at), deterministic=True)
    for name, function in OF_NOW.items():
        connection.create_function(name, 0, partial(_asked, function, 0), deterministic=True)


def _asked(name: str, at: int, *arguments: Any) -> Any:
    """What the function of SQLite returns, with the time of Python in the place of now."""
    before, given = arguments[:at], arguments[at:]
    if not given or (isinstance(given[0], str) and given[0].lower() == "now"):
        given = (time.time(), "unixepoch", *given[1:])
    places = ", ".join("?" * (len(before) + len(given)))
    connection = sqlite3.Connection(":memory:")  # its functions are SQLite's own
    try:
        return connection.execute(f"SELECT {name}({places})", (*before, *given)).fetchone()[0]
    finally:
        connection.close()
