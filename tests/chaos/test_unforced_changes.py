"""What a loss of power leaves of a folder: known from the calls of the program that has written there."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls import folder_tree
from sinkproof.chaos.system_calls.acts import Act
from sinkproof.chaos.system_calls.folder_tree import FolderTree
from sinkproof.chaos.system_calls.unforced_changes import HOOKS, PAGE_BYTES, UnforcedChanges, torn
from sinkproof.chaos.system_calls.watched_program import watched

from ..support.watched_programs import run

needs_watch = pytest.mark.usefixtures("watch_of_system_calls")
SECONDS = 300.0
BEGINNING = "import ctypes, mmap, os\nos.chdir(os.environ['FOLDER'])\n"
ADD_DETAILS = folder_tree._add_details
OPENED = "os.O_WRONLY | os.O_CREAT"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


def left(
    server: ForkServer, folder: Path, program: str, how: str, *, killed_at: str = ""
) -> tuple[dict[str, bytes], UnforcedChanges]:
    """What lies in the folder when the power was lost at the end of the program, or before this call of it."""
    forced = UnforcedChanges(str(folder))
    words = [sys.executable, "-S", "-E", "-c", BEGINNING + program]
    armed = (killed_at, 1, Act.KILL) if killed_at else None
    with watched(server, words, folder, variables={"FOLDER": str(folder)}, record=forced, armed=armed) as (child, _):
        status = child.join(Deadline(SECONDS))
    assert (9 if killed_at else 0) == status, child.output.tail()
    forced.lose(how)
    forced.close()
    files = {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    return files, forced


FORCED_AGAIN = f"""
part = os.open('part', {OPENED})
os.write(part, b'old')
os.fsync(part)
os.fsync(os.open('.', os.O_RDONLY))
os.pwrite(part, b'newer', 0)
try:
    os.fsync(part)
except OSError:
    {{again}}
    os.fsync(part)
"""


@needs_watch
@pytest.mark.parametrize(
    ("again", "left_there"), [("pass", b"old\0\0"), ("os.pwrite(part, b'newer', 0)", b"newer"), ("raise", b"old")]
)
def test_what_could_not_be_forced_is_forced_only_if_it_is_written_again(
    server: ForkServer, tmp_path: Path, again: str, left_there: bytes
) -> None:
    forced = UnforcedChanges(str(tmp_path))
    words = [sys.executable, "-S", "-E", "-c", BEGINNING + FORCED_AGAIN.format(again=again)]
    run(server, tmp_path, words, ("syscall(fsync part)", 2, Act.FAIL), record=forced)
    forced.lose("lose_power")
    forced.close()
    assert left_there == (tmp_path / "part").read_bytes()


PUBLISHES = f"""
rows = os.open('part', {OPENED})
os.write(rows, b'1234')
os.rename('part', 'rows')
note = os.open('note', {OPENED})
os.write(note, b'ab')
"""


@needs_watch
@pytest.mark.parametrize(
    ("how", "files"),
    [
        ("lose_power", {}),
        ("lose_names", {}),
        ("lose_bytes", {"rows": b"", "note": b""}),
        ("lose_tails", {"rows": b"12", "note": b"a"}),
        ("lose_newest", {"rows": b"1234", "note": b""}),
        ("lose_older", {"rows": b"", "note": b"ab"}),
    ],
)
def test_what_was_not_forced_is_left_in_some_order(
    server: ForkServer, tmp_path: Path, how: str, files: dict[str, bytes]
) -> None:
    assert files == left(server, tmp_path, PUBLISHES, how)[0]


@needs_watch
@pytest.mark.parametrize("how", HOOKS)
@pytest.mark.parametrize("force", ["os.fsync(note); os.fsync(rows); os.fsync(os.open('.', os.O_RDONLY))", "os.sync()"])
def test_what_was_forced_is_there(server: ForkServer, tmp_path: Path, how: str, force: str) -> None:
    files, forced = left(server, tmp_path, PUBLISHES + force, how)
    assert ({"rows": b"1234", "note": b"ab"}, 0) == (files, forced.losses)


@needs_watch
def test_rights_survive_as_they_were_when_the_names_were_forced_last(server: ForkServer, tmp_path: Path) -> None:
    program = """
folder = os.open('.', os.O_RDONLY)
os.close(os.open('rows', os.O_WRONLY | os.O_CREAT, 0o600))
os.fsync(folder)
os.chmod('rows', 0o640)
os.fsync(folder)
os.unlink('rows')
"""
    assert {"rows": b""} == left(server, tmp_path, program, "lose_names")[0]
    assert 0o640 == stat.S_IMODE((tmp_path / "rows").stat().st_mode)


@needs_watch
def test_of_files_that_are_known_only_the_names_are_read(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some sinks force a folder with thousands of files each time that they publish one."""
    seen = Counter[str]()

    def add_details(tree: FolderTree, entry: os.DirEntry[str]) -> int:
        seen[entry.name] += 1
        return ADD_DETAILS(tree, entry)

    monkeypatch.setattr(folder_tree, "_add_details", add_details)
    program = """
for number in range(5):
    os.close(os.open(f'rows-{number}', os.O_WRONLY | os.O_CREAT, 0o600))
    os.fsync(os.open('.', os.O_RDONLY))
"""
    words = [sys.executable, "-S", "-E", "-c", BEGINNING + program]
    forced = UnforcedChanges(str(tmp_path))
    run(server, tmp_path, words, None, record=forced)
    forced.close()
    assert dict.fromkeys((f"rows-{number}" for number in range(5)), 1) == seen


@needs_watch
def test_a_forced_file_without_a_forced_name_is_gone(server: ForkServer, tmp_path: Path) -> None:
    program = f"rows = os.open('rows', {OPENED}); os.write(rows, b'1'); os.fsync(rows)"
    assert {} == left(server, tmp_path, program, "lose_names")[0]


@needs_watch
def test_a_rename_that_was_not_forced_is_undone_and_a_removal_too(server: ForkServer, tmp_path: Path) -> None:
    for name in ("old", "gone"):
        (tmp_path / name).write_text(name)
    files, forced = left(server, tmp_path, "os.rename('old', 'new'); os.unlink('gone')", "lose_names")
    assert ({"old": b"old", "gone": b"gone"}, 1) == (files, forced.losses)


MOVES: Final = """
os.mkdir('from'); os.mkdir('from/part'); os.mkdir('to')
open('from/part/rows', 'w').write('1'); open('from/file', 'w').write('2'); open('from/kept', 'w').write('3'); os.sync()
os.rename('from/part', 'to/part'); os.rename('from/file', 'to/file'); os.link('from/kept', 'to/kept')
"""


@needs_watch
@pytest.mark.parametrize(
    ("forced", "names"),
    [
        ("to", {"to/part/rows", "to/file", "to/kept", "from/kept"}),
        ("from", {"from/kept"}),
        ("", {"from/part/rows", "from/file", "from/kept"}),
    ],
)
def test_what_was_moved_between_folders_has_one_name(
    forced: str, names: set[str], server: ForkServer, tmp_path: Path
) -> None:
    force = f"os.fsync(os.open('{forced}', os.O_RDONLY))" if forced else ""
    assert names == {*left(server, tmp_path, MOVES + force, "lose_names")[0]}


@needs_watch
def test_a_force_before_which_the_process_has_died_has_forced_nothing(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"old")
    program = "rows = os.open('rows', os.O_WRONLY); os.write(rows, b'new'); os.fsync(rows); os.write(rows, b'!')"
    struck = left(server, tmp_path, program, "lose_bytes", killed_at="syscall(fsync rows)")
    assert {"rows": b"old"} == struck[0]
    assert {"rows": b"new"} == left(server, tmp_path, program, "lose_bytes")[0]


@needs_watch
@pytest.mark.parametrize(("flags", "kept"), [("0", b"old"), ("os.O_DSYNC", b"newer"), ("os.O_SYNC", b"newer")])
def test_writes_to_a_file_that_was_opened_for_it_are_forced(
    server: ForkServer, tmp_path: Path, flags: str, kept: bytes
) -> None:
    (tmp_path / "rows").write_bytes(b"old")
    program = f"rows = os.open('rows', os.O_WRONLY | {flags}); os.write(rows, b'new'); os.write(rows, b'er')"
    assert {"rows": kept} == left(server, tmp_path, program, "lose_power")[0]


@needs_watch
@pytest.mark.parametrize(("flags", "kept"), [("0", b"old"), ("os.RWF_DSYNC", b"new"), ("os.RWF_SYNC", b"new")])
def test_single_writes_are_forced_by_a_flag(server: ForkServer, tmp_path: Path, flags: str, kept: bytes) -> None:
    (tmp_path / "rows").write_bytes(b"old")
    program = f"rows = os.open('rows', os.O_WRONLY); os.pwritev(rows, [b'n', b'ew'], 0, {flags})"
    assert {"rows": kept} == left(server, tmp_path, program, "lose_power")[0]


@needs_watch
@pytest.mark.parametrize(("flags", "is_kept"), [("os.O_RDONLY", True), ("os.O_PATH", False)])
def test_a_folder_that_was_not_opened_cannot_be_forced(
    server: ForkServer, tmp_path: Path, flags: str, is_kept: bool
) -> None:
    program = f"""
rows = os.open('rows', os.O_WRONLY | os.O_CREAT)
os.fsync(rows)
folder = os.open('.', {flags})
try:
    os.fsync(folder)
except OSError:
    pass
"""
    assert is_kept is ("rows" in left(server, tmp_path, program, "lose_power")[0])


MAPS = """
rows = os.open('rows', os.O_RDWR)
mmap.mmap(rows, 4096)[0] = 65
"""


@needs_watch
@pytest.mark.parametrize(
    ("then", "doubtful"),
    [
        ("", ["rows"]),
        ("os.truncate('rows', 3)", []),
        ("os.truncate('rows', 2000)", ["rows"]),
        ("os.unlink('rows')", []),
    ],
)
def test_a_file_that_was_mapped_is_in_doubt_until_it_is_emptied(
    server: ForkServer, tmp_path: Path, then: str, doubtful: list[str]
) -> None:
    (tmp_path / "rows").write_bytes(bytes(4096))
    forced = UnforcedChanges(str(tmp_path))
    for program in (MAPS, then):
        words = [sys.executable, "-S", "-E", "-c", BEGINNING + program]
        with watched(server, words, tmp_path, variables={"FOLDER": str(tmp_path)}, record=forced) as (child, _):
            assert 0 == child.join(Deadline(SECONDS)), child.output.tail()
        if program == MAPS:
            forced.lose("lose_power")
    forced.close()
    assert doubtful == forced.mapped_across_losses


def test_what_the_engine_changes_is_forced(tmp_path: Path) -> None:
    forced = UnforcedChanges(str(tmp_path))
    with forced.by_the_engine():
        (tmp_path / "recovered").write_text("rows")
    (tmp_path / "other").write_text("not forced")
    forced.lose("lose_power")
    forced.close()
    assert ["recovered"] == [path.name for path in tmp_path.iterdir()]


def test_what_stays_keeps_its_inode_its_links_and_its_rights(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/rows").write_text("rows")
    (tmp_path / "below/rows").chmod(0o600)
    (tmp_path / "same").hardlink_to(tmp_path / "below/rows")
    (tmp_path / "link").symlink_to("same")
    forced = UnforcedChanges(str(tmp_path))
    inode = (tmp_path / "same").stat().st_ino
    (tmp_path / "below").rename(tmp_path / "moved")
    forced.lose("lose_power")
    forced.close()
    assert ["below", "link", "same"] == sorted(path.name for path in tmp_path.iterdir())
    brought_back = (tmp_path / "below/rows").stat()
    assert (0o600, inode, 2) == (brought_back.st_mode & 0o777, brought_back.st_ino, brought_back.st_nlink)
    assert "rows" == (tmp_path / "link").read_text()


def test_a_folder_that_was_replaced_is_brought_back_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/rows").write_text("rows")
    forced = UnforcedChanges(str(tmp_path))
    (tmp_path / "new").mkdir()
    (tmp_path / "out/rows").rename(tmp_path / "new/rows")
    (tmp_path / "out").rename(tmp_path / "old")
    (tmp_path / "new").rename(tmp_path / "out")
    forced.lose("lose_power")
    forced.close()
    assert ["out", "out/rows"] == sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert "rows" == (tmp_path / "out/rows").read_text()


@pytest.mark.parametrize(
    ("forced", "written", "expected"),
    [
        (b"", b"1234", b"12"),
        (b"12", b"123456", b"1234"),
        (b"a" * 3 * PAGE_BYTES, b"b" * 3 * PAGE_BYTES, b"b" * PAGE_BYTES + b"a" * 2 * PAGE_BYTES),
        (b"a" * 4000, b"b" * 100, b"b" * 100 + bytes(PAGE_BYTES // 2 - 100) + b"a" * (4000 - PAGE_BYTES // 2)),
        (b"a" * PAGE_BYTES, b"b" * PAGE_BYTES, b"b" * (PAGE_BYTES // 2) + b"a" * (PAGE_BYTES // 2)),
    ],
)
def test_a_write_back_that_was_cut_leaves_a_part(forced: bytes, written: bytes, expected: bytes) -> None:
    assert expected == torn(forced, written)
