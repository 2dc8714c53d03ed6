"""Makes every executed line of a sink's package a point, and every file effect of code without points of its own.

Lines come from a trace function that is limited to the given files: frames of other files get no local trace function
and run at nearly full speed. Python traces nothing while a trace function runs, and stops tracing when one raises: a
shell that runs the rest of a job inside `reach` uses `sys.call_tracing`, if lines are to be points there, too.

File effects come from one audit hook. Python cannot remove an audit hook, so it is switched on and off.
"""

from __future__ import annotations

import dis
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from inspect import CO_OPTIMIZED  # functions have it, bodies of modules and classes have not
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from sinkproof.chaos.points import CALLED_FROM, line_point

Reach = Callable[[str], None]
STACK_MOST: Final = 6  # lines of the sink's own code that tell how a call was made
PROLOGUE: Final = {"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "POP_TOP"}
FILE_READ: Final = "file.read"
FILE_EVENTS: Final[dict[str, tuple[str, tuple[tuple[int, int | None], ...]]]] = {
    # audit event -> point, and which of its arguments name a file (with the descriptor of the folder to start from)
    "open": ("file.create", ((0, None),)),
    "os.rename": ("file.rename", ((0, 2), (1, 3))),
    "os.remove": ("file.unlink", ((0, 1),)),
    "os.mkdir": ("file.make_directory", ((0, 2),)),
    "os.rmdir": ("file.remove_directory", ((0, 1),)),
    "os.truncate": ("file.write", ((0, None),)),
    "os.link": ("file.create", ((1, 3),)),
    "os.symlink": ("file.create", ((1, 2),)),
    # Not of os.scandir: functions of the standard library that use it, such as glob and os.walk, ignore its errors.
    "os.listdir": (FILE_READ, ((0, None),)),
}


class Unanswered(OSError):
    """Raised by `reach` at a file point: the effect happens, and then the call raises this error to its caller."""


class LineTracer:
    """`with tracer(reach):` calls `reach("line(file.py:42)")` before each line of these files is executed.

    `threads`: also in threads that are started within such a context, whenever one is active in their lives.
    """

    def __init__(self, files: Mapping[str, str], *, threads: bool = False) -> None:
        self.files, self.threads = files, threads  # absolute path -> name in points
        self.is_on = False
        self.entered: set[CodeType] = set()
        self.points: dict[tuple[str, int], str] = {}

    @contextmanager
    def __call__(self, reach: Reach) -> Iterator[None]:
        files, points, entered = self.files, self.points, self.entered

        def of_line(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line" and self.is_on:
                place = (frame.f_code.co_filename, frame.f_lineno)
                point = points.get(place)
                if point is None:
                    point = points[place] = line_point(files[place[0]], place[1])
                reach(point)
            return of_line

        def of_call(frame: FrameType, event: str, _: Any) -> Any:
            if frame.f_code.co_filename not in files or not frame.f_code.co_flags & CO_OPTIMIZED:
                return None
            entered.add(frame.f_code)
            return of_line

        before, was_on = sys.gettrace(), self.is_on
        self.is_on = True
        sys.settrace(of_call)
        if self.threads:
            threading.settrace(of_call)
        try:
            yield
        finally:
            sys.settrace(before)
            self.is_on = was_on

    def known(self) -> set[str]:
        """Every line that the functions entered so far could execute."""
        return {line_point(self.files[code.co_filename], number) for code in self.entered for number in _lines_of(code)}


def line_on_stack(files: Mapping[str, str], *, above: CodeType | None = None) -> str:
    """The lines of these files that are being executed by this thread, as points joined by CALLED_FROM, the innermost
    first: a call was made there. Empty if there is none. `above`: code below which the stack belongs to others.
    """
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not above and len(found) < STACK_MOST:
        if frame.f_code.co_filename in files:
            found.append(line_point(files[frame.f_code.co_filename], frame.f_lineno))
        frame = frame.f_back
    return CALLED_FROM.join(dict.fromkeys(found))


def executable_lines(file: Path) -> set[int]:
    """The lines of all functions in the file. A line that only an import executes is no point."""
    return {line for lines in _functions(file) for line in lines}


def known_lines(files: Mapping[str, str], points: Collection[str]) -> set[str]:
    """As `LineTracer.known`, from the points of another process: all lines of every function that has one of them."""
    known: set[str] = set()
    for file, name in files.items():
        for lines in _functions(Path(file)):
            named = {line_point(name, line) for line in lines}
            known |= named if not named.isdisjoint(points) else set()
    return known


def _functions(file: Path) -> Iterator[set[int]]:
    work = [compile(file.read_bytes(), str(file), "exec", dont_inherit=True)]
    while work:
        code = work.pop()
        if code.co_flags & CO_OPTIMIZED:
            yield _lines_of(code)
        work += [inner for inner in code.co_consts if isinstance(inner, CodeType)]


def _lines_of(code: CodeType) -> set[int]:
    """The lines for which the interpreter emits line events: without the prologue on the `def` line."""
    lines: set[int] = set()
    in_prologue = True
    for step in dis.get_instructions(code):
        if in_prologue and step.opname in PROLOGUE:
            continue
        in_prologue = False
        line = step.positions.lineno if step.positions else None
        if line is not None and (line != code.co_firstlineno or code.co_name.startswith("<") or _is_short(code)):
            lines.add(line)
    return lines


def _is_short(code: CodeType) -> bool:
    """Whether the body is on the line of its `def`."""
    return {line for _, _, line in code.co_lines() if line is not None} == {code.co_firstlineno}


_opening = threading.local()  # the permissions that `os.open` was called with: the audit event has none


def _noting_permissions(path: Any, flags: int, *mode: int, _open: Callable[..., int] = os.open, **others: Any) -> int:
    before = getattr(_opening, "permissions", None)
    _opening.permissions = mode[0] if mode else others.get("mode", 0o777)
    try:
        return _open(path, flags, *mode, **others)
    finally:
        _opening.permissions = before


def _create(path: Any, mode: str | None, flags: int) -> None:
    permissions = getattr(_opening, "permissions", None) if mode is None else None
    os.close(os.open(path, flags, 0o666 if permissions is None else permissions))


class _Audit:
    """The one hook of this process, and its current folder and callback."""

    installed = False
    folder = ""
    reach: Reach | None = None
    reads = False


@contextmanager
def file_points(folder: Path, reach: Reach, *, reads: bool = False) -> Iterator[None]:
    """File effects under the folder call `reach` right before they happen; what `reach` raises stops the effect.
    `reads`: so do reads, which change nothing.
    """
    if not _Audit.installed:
        sys.addaudithook(_hook)
        os.supports_dir_fd.add(_noting_permissions)  # as `os.open` does
        _Audit.installed = True
    before, opened_by = (_Audit.folder, _Audit.reach, _Audit.reads), os.open
    _Audit.folder, _Audit.reach, _Audit.reads = os.path.abspath(folder), reach, reads
    setattr(os, "open", _noting_permissions)  # noqa: B010  # no type says that it may be replaced
    try:
        yield
    finally:
        setattr(os, "open", opened_by)  # noqa: B010
        _Audit.folder, _Audit.reach, _Audit.reads = before


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _Audit.reach is None or event not in FILE_EVENTS:
        return
    point, names_and_folders = FILE_EVENTS[event]
    if event == "open":
        point = _point_of_open(arguments[2])
    if point == FILE_READ and not _Audit.reads:
        return
    if any(_is_inside(arguments[name], arguments, at) for name, at in names_and_folders):
        try:
            _Audit.reach(point)
        except Unanswered:
            _do_unobserved(event, arguments)
            raise


def _do_unobserved(event: str, arguments: tuple[Any, ...]) -> None:
    """Carries out the audited call, with the hook switched off."""
    reach, _Audit.reach = _Audit.reach, None
    try:
        DONE_BY[event](*arguments)
    finally:
        _Audit.reach = reach


def _from(descriptor: int) -> int | None:
    """The `dir_fd` of an audit event: -1 means none."""
    return None if descriptor < 0 else descriptor


DONE_BY: Final[dict[str, Callable[..., Any]]] = {
    "open": _create,
    "os.rename": lambda old, new, at, to: os.rename(old, new, src_dir_fd=_from(at), dst_dir_fd=_from(to)),
    "os.remove": lambda path, at: os.remove(path, dir_fd=_from(at)),
    "os.mkdir": lambda path, mode, at: os.mkdir(path, mode, dir_fd=_from(at)),
    "os.rmdir": lambda path, at: os.rmdir(path, dir_fd=_from(at)),
    "os.link": lambda old, new, at, to: os.link(old, new, src_dir_fd=_from(at), dst_dir_fd=_from(to)),
    "os.symlink": lambda old, new, at: os.symlink(old, new, dir_fd=_from(at)),
}


def _point_of_open(flags: int) -> str:
    if not flags & (os.O_WRONLY | os.O_RDWR):
        return FILE_READ
    return "file.create" if flags & os.O_CREAT else "file.write"


def _is_inside(name: Any, arguments: tuple[Any, ...], at: int | None) -> bool:
    """Whether the file is under the folder. `at`: index of the argument that is the `dir_fd` of the name."""
    if not isinstance(name, (str, bytes, os.PathLike)):
        return False  # an open descriptor: the call that opened it was a point
    path = os.fsdecode(name)
    folder = -1 if at is None else arguments[at]
    if folder >= 0 and not os.path.isabs(path):
        path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
    path = os.path.abspath(path)
    return path == _Audit.folder or path.startswith(_Audit.folder + os.sep)
