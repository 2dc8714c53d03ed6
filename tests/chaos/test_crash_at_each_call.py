"""A whole program that is no sink: killed before each of its outward calls, run again until it ends well, and read."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.watched_program import crash_at_each_call

needs_watch = pytest.mark.usefixtures("watch_of_system_calls")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


PIPELINE = """
import os
os.chdir(os.environ["FOLDER"])
done = sorted(os.listdir('.'))
for number in (1, 2, 3):
    if f'part-{number}' not in done:
        with open('temp', 'w') as file:
            file.write(f'row {number}')
        os.rename('temp', f'part-{number}')
"""
APPENDS = """
import os
os.chdir(os.environ["FOLDER"])
done = open('all').read().split() if os.path.exists('all') else []
for number in ('1', '2'):
    if not os.path.exists(f'done-{number}'):
        os.write(os.open('all', os.O_APPEND | os.O_CREAT | os.O_WRONLY), f'{number} '.encode())
        os.close(os.open(f'done-{number}', os.O_CREAT))
"""


@pytest.mark.slow
@needs_watch
@pytest.mark.parametrize(
    ("program", "wrong"), [(PIPELINE, []), (APPENDS, ["syscall(openat done-*)#1", "syscall(openat done-*)#2"])]
)
def test_a_whole_program_is_killed_before_each_of_its_calls_and_runs_again(
    server: ForkServer, tmp_path: Path, program: str, wrong: list[str]
) -> None:
    def empty() -> None:
        for path in tmp_path.iterdir():
            path.unlink()

    def read() -> list[str]:
        return sorted(word for path in tmp_path.glob("[pa]*") for word in path.read_text().split())

    runs = list(
        crash_at_each_call(
            server,
            [sys.executable, "-S", "-E", "-c", program],
            tmp_path,
            prepare=empty,
            read=read,
            variables={"FOLDER": str(tmp_path)},
        )
    )
    alone, *killed = runs
    assert ("", (0,)) == (alone.place, alone.endings)
    assert [(signal.SIGKILL, 0)] * len(killed) == [each.endings for each in killed]
    assert wrong == [each.place for each in killed if each.seen != alone.seen]
    assert {9: 9, 6: 6}[len(killed)] == len({each.place for each in killed})
