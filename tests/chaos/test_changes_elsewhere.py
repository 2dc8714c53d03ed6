"""What a program changes outside of its folder: named, noticed where it is mapped, and told from what is temporary."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.place_names import canonical_name, is_drawn, kept
from sinkproof.chaos.system_calls.supervisor import SystemCallWatch
from sinkproof.chaos.system_calls.watched_program import watched

SECONDS = 60.0  # a test that waits for so long has failed
needs_watch = pytest.mark.usefixtures("watch_of_system_calls")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


def run_everywhere(
    server: ForkServer, folder: Path, program: str, *, elsewhere: Path, found: dict[str, bool] | None = None
) -> tuple[list[str], SystemCallWatch]:
    """The points of a program that ends well, and its watch. What it changes outside of the folder counts, too.
    `found`: what other programs of this run have met there.
    """
    words = [sys.executable, "-S", "-E", "-c", f"import mmap, os, socket\nos.chdir(os.environ['FOLDER'])\n{program}"]
    variables = {"FOLDER": str(folder), "ELSEWHERE": str(elsewhere)}
    with watched(server, words, folder, variables=variables, elsewhere={} if found is None else found) as (
        child,
        watch,
    ):
        assert 0 == child.join(Deadline(SECONDS))
        return watch.take_points(), watch


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@needs_watch
def test_what_lies_elsewhere_has_its_whole_path_as_a_name(server: ForkServer, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "else"
    folder.mkdir()
    elsewhere.mkdir()
    program = """
there = os.environ['ELSEWHERE']
os.makedirs(there, exist_ok=True)  # is there already: nothing changes
open(there + '/mark', 'w').close()
os.symlink(os.getcwd() + '/inside', there + '/link')
open(there + '/link', 'w').close()
kept = os.open('kept', os.O_RDONLY | os.O_CREAT)
open(f'/proc/self/fd/{kept}', 'w').close()
open('/dev/null', 'w').close()
os.unlink(there + '/link')
open(there + '/mark', 'a').close()  # not emptied, and nothing written to it
"""
    points, watch = run_everywhere(server, folder, program, elsewhere=elsewhere)
    name = canonical_name(str(elsewhere))
    outside = [f"syscall({call} {name}/{path})" for call, path in (("openat", "mark"), ("symlink", "link"))]
    inside = ["syscall(openat inside)", "syscall(openat kept)", "syscall(openat kept)"]
    assert [*outside, *inside, f"syscall(unlink {name}/link)"] == points
    assert {f"{elsewhere}/mark": False, f"{elsewhere}/link": False} == watch.names.elsewhere


@needs_watch
def test_a_map_of_a_file_elsewhere_is_noticed_and_servers_are_named(server: ForkServer, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "else"
    folder.mkdir()
    elsewhere.write_bytes(bytes(4096))
    program = """
file = open(os.environ['ELSEWHERE'], 'rb+')
mmap.mmap(file.fileno(), 0)
listener = socket.create_server(('127.0.0.1', 0))
socket.create_connection(listener.getsockname())
socket.socket(socket.AF_UNIX).connect_ex('/nothing/there')
"""
    _, watch = run_everywhere(server, folder, program, elsewhere=elsewhere)
    assert [f"it maps {elsewhere} into its memory: what it writes there is no system call"] == list(watch.unseen)
    (peer,) = watch.names.peers
    assert re.fullmatch(r"127\.0\.0\.1:\d+", peer)


def test_what_is_kept_elsewhere_was_there_before_or_is_no_temporary_file(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "kept").mkdir()
    for folder in (temporary, tmp_path / "kept"):
        (folder / "new").touch()
    paths = {str(tmp_path / name): was for name, was in (("temporary/new", False), ("temporary/old", True))}
    paths |= {str(tmp_path / name): was for name, was in (("kept/new", False), ("kept/gone", False))}
    assert [str(tmp_path / "temporary/old"), str(tmp_path / "kept/new")] == kept(paths)


@needs_watch
def test_a_temporary_file_is_no_place_and_must_not_be_met_by_two(
    server: ForkServer, tmp_path: Path, temporary: Path
) -> None:
    program = """
there = os.environ['ELSEWHERE']
open(there + '/drawn', 'w').close()
os.makedirs(there + '/shared', exist_ok=True)
os.rename(there + '/drawn', 'seen')
"""
    folder, found = tmp_path / "folder", dict[str, bool]()
    folder.mkdir()
    for is_found in (False, True):
        points, _ = run_everywhere(server, folder, program, elsewhere=temporary, found=found)
        assert ["syscall(rename seen)"] == points
        assert {f"{temporary}/drawn": is_found, f"{temporary}/shared": is_found} == found
    assert [f"{temporary}/drawn", f"{temporary}/shared"] == kept(found)


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("tmp8k_x0a2b", True),
        ("6vxvzo5h", True),
        ("out/7c9e6679-7425-40de-944b-e07fc1f90ae7.json", True),
        ("staging-0-3.json", False),
        ("tmp_staging", False),
        ("sinkproof-12-abcd1234-noted", False),
        ("../tmp8k_x0a2b", False),
    ],
)
def test_only_temporary_files_with_a_random_name_are_met_by_no_other_run(
    temporary: Path, name: str, drawn: bool
) -> None:
    assert drawn == is_drawn(os.path.normpath(temporary / name))


@needs_watch
def test_addresses_that_a_program_binds_are_noted_outside_of_its_folder(
    server: ForkServer, tmp_path: Path, temporary: Path
) -> None:
    program = """
socket.create_server(('127.0.0.1', 0))
socket.socket(socket.AF_UNIX).bind('own')
socket.socket(socket.AF_UNIX).bind(os.environ['ELSEWHERE'] + '/shared')
socket.socket(socket.AF_UNIX).bind('\\0' + os.getcwd())
"""
    folder = tmp_path / "folder"
    folder.mkdir()
    _, watch = run_everywhere(server, folder, program, elsewhere=temporary)
    assert [f"{temporary}/shared", f"@{folder}"] == list(watch.names.bound)
