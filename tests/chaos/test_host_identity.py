"""What files say of a host, to Python, in a process that is on another one."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from pathlib import Path
from sinkproof.chaos.processes.host_identity import FILES, show_host_in_files

show_host_in_files(sys.argv[1])
for file in FILES:
    descriptor = os.open(file, os.O_RDONLY)
    by_descriptor = os.read(descriptor, 100).decode()
    with open(file) as opened:
        assert by_descriptor == opened.read() == Path(file).read_text() == Path(file).read_bytes().decode()
    print(by_descriptor.strip())
os.close(os.open(".", os.O_RDONLY, dir_fd=os.open("/", os.O_RDONLY)))
"""


def said_by(name: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("name", ["host-0-1", "host-1-2"])
def test_files_tell_the_same_of_one_host(name: str) -> None:
    names, other_names, number, other_number, start = said_by(name)
    assert name == names == other_names
    assert 32 == len(number)
    assert number == other_number
    assert number == start.replace("-", "")
    assert [names, other_names, number, other_number, start] == said_by(name)


def test_files_of_another_host_say_something_else() -> None:
    assert set(said_by("host-0-1")).isdisjoint(said_by("host-0-2"))
