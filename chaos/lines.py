"""Every executed line of the sink's own code is a point, and so is every file effect of code that has no points.

Lines come from a trace function that is limited to the given files: frames of other files get no local trace
function and
run at nearly full speed. File effects come from one audit hook, which Python cannot remove: it is switched instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from sinkproof.chaos.points import line_point

Reach = Callable[[str], None]
WRITING: Final = frozenset("wax+")
FILE_EVENTS: Final = {
    "os.rename": "file.rename",
    "os.remove": "file.unlink",
    "os.mkdir": "file.make_directory",
    "os.rmdir": "file.remove_directory",
    "os.truncate": "file.write",
    "os.link": "file.create",
    "os.symlink": "file.create",
}


class LineTracer:
    """`with tracer(reach):` calls `reach("line(file.py:42)")` before each line of these files is executed."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files  # absolute path -> name in points
        self.entered: set[CodeType] = set()
        self.points: dict[tuple[str, int], str] = {}

    @contextmanager
    def __call__(self, reach: Reach) -> Iterator[None]:
        files, points, entered = self.files, self.points, self.entered

        def of_line(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                place = (frame.f_code.co_filename, frame.f_lineno)
                point = points.get(place)
                if point is None:
                    point = points[place] = line_point(files[place[0]], place[1])
                reach(point)
            return of_line

        def of_call(frame: FrameType, event: str, _: Any) -> Any:
            if frame.f_code.co_filename not in files:
                return None
            entered.add(frame.f_code)
            return of_line

        before = sys.gettrace()
        sys.settrace(of_call)
        try:
            yield
        finally:
            sys.settrace(before)

    def known(self) -> set[str]:
        """Every line that the functions entered so far could execute."""
        return {
            line_point(self.files[code.co_filename], number)
            for code in self.entered
            for _, _, number in code.co_lines()
            if number is not None and number != code.co_firstlineno
        }


class _Audit:
    """The one hook of this process, and what it is switched to."""

    installed = False
    folder = ""
    reach: Reach | None = None


@contextmanager
def file_points(folder: Path, reach: Reach) -> Iterator[None]:
    """File effects under the folder call `reach` right before they happen; what `reach` raises stops the effect."""
    if not _Audit.installed:
        sys.addaudithook(_hook)
        _Audit.installed = True
    before = _Audit.folder, _Audit.reach
    _Audit.folder, _Audit.reach = str(folder), reach
    try:
        yield
    finally:
        _Audit.folder, _Audit.reach = before


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _Audit.reach is None or not (event == "open" or event in FILE_EVENTS):
        return
    if not str(arguments[0]).startswith(_Audit.folder):
        return
    if event != "open":
        point = FILE_EVENTS[event]
    elif isinstance(arguments[1], str) and WRITING & set(arguments[1]):
        point = "file.create"
    else:
        return
    _Audit.reach(point)
