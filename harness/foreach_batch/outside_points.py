"""What a function changes outside by calls in Python, as points: files, rows and commits of SQLite, bytes over TCP."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from sinkproof.chaos.lines import file_points
from sinkproof.chaos.requests.socket_points import socket_points
from sinkproof.chaos.sqlite_points import sqlite_points

NOT_OF_FUNCTIONS: Final = frozenset(
    {
        "py4j",  # to Spark's JVM
        "pyspark",
        "socketserver",  # replies of a server that `setup` has started in this process
    }
)


@contextmanager
def outside_points(folder: Path, reach: Callable[[str], None], *, files: Collection[str]) -> Iterator[None]:
    """`reach` is called right before each of them. `files`: of the function. Its modules are imported within the block,
    so that connections which they make meanwhile are watched, too. What threads of before send is not of the function.
    """
    others = {*threading.enumerate()} - {threading.current_thread()}

    def reach_if_sent_by_function(point: str) -> None:
        if threading.current_thread() not in others and not _is_sent_by_others(files):
            reach(point)

    with (
        file_points(folder, reach),
        sqlite_points(folder, reach, files=files),
        socket_points(reach_if_sent_by_function),
    ):
        yield


def _is_sent_by_others(files: Collection[str]) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in files:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in NOT_OF_FUNCTIONS:
            return True
        frame = frame.f_back
    return False
