"""Only what is sent to servers that a program has not started itself is a place, if the watch is asked for that."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.watched_program import watched

pytestmark = pytest.mark.usefixtures("watch_of_system_calls")

SECONDS = 300.0
PROGRAM = """
import os, socket, subprocess, sys
def listening(family, address):
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()
    return listener
os.chdir(os.environ["FOLDER"])
own = listening(socket.AF_INET, ("127.0.0.1", 0))
local = listening(socket.AF_UNIX, "own.socket")
for family, address in ((socket.AF_INET, own.getsockname()), (socket.AF_UNIX, "own.socket")):
    client = socket.socket(family)
    client.connect(address)
    client.send(b"to itself")
accepted = own.accept()[0]
accepted.send(b"from itself")
left, right = socket.socketpair()
left.send(b"to itself")
other = socket.create_connection(("localhost", int(os.environ["PORT"])))
other.send(b"to another")
os.write(other.fileno(), b"again")
print(subprocess.run([sys.executable, "-c", "import os, socket; socket.create_connection(('127.0.0.1', "
    "int(os.environ['PORT']))).sendall(b'by a child')"]).returncode)
"""


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["ipv4", "both"])
def test_what_a_program_sends_to_itself_is_no_place(family: int, tmp_path: Path) -> None:
    both = family == socket.AF_INET6
    with (
        socket.create_server(("" if both else "127.0.0.1", 0), family=family, dualstack_ipv6=both) as server,
        ForkServer() as forks,
    ):
        variables = {"FOLDER": str(tmp_path), "PORT": str(server.getsockname()[1])}
        words = [sys.executable, "-S", "-E", "-c", PROGRAM]
        with watched(forks, words, tmp_path, variables=variables, to_servers=True) as (child, watch):
            assert child.join(Deadline(SECONDS)) == 0
            points = watch.take_points()
    assert ["syscall(sendto socket)", "syscall(write socket)", "syscall(sendto socket)"] == points
