"""What a process reads outside of scratch folders is in the journal; what no digest describes is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sinkproof.chaos.processes.recorded_inputs import listing, read

READING = """
import os, sqlite3, subprocess, socket, sys
from pathlib import Path

from sinkproof.chaos.processes.recorded_inputs import recording_of, start

home, journal = Path(sys.argv[1]), Path(sys.argv[2])
start(recording_of(journal, [home], "scratch"))
exec(compile(sys.argv[3], "subject.py", "exec"), {"__name__": "subject", "home": home, "os": os, "sqlite3": sqlite3,
     "subprocess": subprocess, "socket": socket, "sys": sys})
"""


def journal_of(home: Path, code: str) -> Path:
    journal = home / "journal"
    journal.touch()
    done = subprocess.run(
        [sys.executable, "-c", READING, str(home), str(journal), code], capture_output=True, text=True
    )
    assert "" == done.stderr
    return journal


def test_files_folders_and_modules_are_recorded(tmp_path: Path) -> None:
    for name in ("data.txt", "module.py", "scratch-1/own.txt", "folder/entry"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    code = """
open(home / "data.txt").close()
os.chdir(home)
open("scratch-1/own.txt", "w").close()
sqlite3.connect(home / "scratch-1" / "own.db").close()
sqlite3.connect(f"file:{home}/scratch-1/own.db?mode=ro", uri=True).close()
os.listdir("folder")
try:
    open("absent.txt")
except FileNotFoundError:
    pass
sys.path.insert(0, str(home))
import module
"""
    recorded = read(journal_of(tmp_path, code))
    assert recorded is not None
    mine = {name for name in recorded.files if name.startswith(str(tmp_path))}
    assert {str(tmp_path / name) for name in ("data.txt", "absent.txt", "module.py")} == mine
    assert (str(tmp_path / "folder"), "entry") in recorded.folders
    assert (str(tmp_path), listing(str(tmp_path))) in recorded.folders
    assert () == recorded.beyond
    assert any(name.endswith(".so") or ".so." in name for name in recorded.files), "native libraries that are loaded"
    assert any(name.endswith("/recorded_inputs.py") for name in recorded.files), "modules loaded before"


def test_what_is_removed_from_a_scratch_folder_is_not_taken_for_its_namesake_in_the_working_directory(
    tmp_path: Path,
) -> None:
    for name in ("scratch-1/out", "out"):
        (tmp_path / name).mkdir(parents=True)
    code = 'import shutil; os.chdir(home); shutil.rmtree(home / "scratch-1")'
    recorded = read(journal_of(tmp_path, code))
    assert recorded is not None
    assert str(tmp_path / "out") not in recorded.files
    assert () == recorded.beyond


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ('open(home / "log.txt", "a")', "writes "),
        ('open("/proc/uptime")', "reads /proc/uptime"),
        ('sqlite3.connect(home / "other.db")', "opens the database "),
        ('sqlite3.connect(f"file:{home}/other%20one.db?mode=rwc", uri=True)', "opens the database /"),
        ('subprocess.run(["true"])', "subprocess.Popen"),
        ('os.mkdir(home / "a-lock")', "changes "),
        ('open(home / "a", "w").close(); os.rename(home / "a", home / "b")', "changes "),
        ('os.symlink("x", home / "pointer")', "changes "),
        ('open(home / "a", "w").close(); os.truncate(home / "a", 0)', "changes "),
        ("import multiprocessing.popen_forkserver", "imports multiprocessing.popen_forkserver"),
        ('socket.create_server(("127.0.0.1", 0))', "socket.bind"),
        ('import ctypes; ctypes.CDLL("libc.so.6")', "loads by ctypes libc.so.6"),
        ("import multiprocessing.popen_spawn_posix", "imports multiprocessing.popen_spawn_posix"),
        ('if os.fork() == 0: open("/proc/stat"); os._exit(0)\nelse: os.wait()', "reads /proc/stat"),
    ],
)
def test_what_no_digest_describes_is_named(tmp_path: Path, code: str, named: str) -> None:
    code = code.replace("if os.fork() == 0: ", "if os.fork() == 0:\n ").replace('"); os._exit', '")\n os._exit')
    recorded = read(journal_of(tmp_path, code.replace("else: ", "")))
    assert recorded is not None
    assert any(each.startswith(named) for each in recorded.beyond), recorded.beyond


def test_a_process_that_cannot_write_leaves_no_journal(tmp_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    open(home / "data.txt")
except OSError:
    pass
"""
    assert read(journal_of(tmp_path, code)) is None
