"""A job under way, and strangers at every port at which its processes listen."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sinkproof.chaos.processes.process_table import members_of, parents_of_all
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.reference_engine.checkpointing.folder_storage import FolderCheckpointStorage
from sinkproof.reference_engine.checkpointing.restore_and_rescale import covered
from sinkproof.reference_engine.shells.spark.control_messages import Address, connect
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder

from .conftest import RUN_SECONDS, committed_rows

LISTENING = {"tcp": "0A", "unix": "00010000"}  # in /proc/net
GARBAGE = (b"\0" * 100, b"\x80\x04\x95" * 40, b"GET / HTTP/1.1\r\n" * 10, b"\xff" * 100)
ROWS_WITHOUT_END = 1_000_000


@pytest.mark.parametrize("network", ["unix", "tcp"])
def test_strangers_at_every_port_change_nothing(cluster: Cluster, tmp_path: Path, network: str) -> None:
    run = SparkRun(
        recipe="jobs_under_test:in_flight",
        arguments={"folder": str(tmp_path), "rows": ROWS_WITHOUT_END},
        folder=tmp_path / "run",
        network=network,
    )
    execution = cluster.begin(run, tasks=4)
    story: list[Happening] = []
    attacked: set[Address] = set()
    assert cluster.process is not None
    for happening in execution.happenings(seconds=RUN_SECONDS):
        story.append(happening)
        if happening["what"] == "complete" and not attacked:
            attacked |= {address for address in listening(cluster.process.pid, network) if attack(address)}
        refused = len(of(story, "refused"))
        if happening["what"] == "refused" and refused == len(attacked) * (1 + len(GARBAGE)):
            execution.stop()  # before that the input has no end: a line is missing if this run does not end
    assert 3 == len(attacked)  # the coordinator and both sinks
    assert [] == of(story, "failed") + of(story, "raised")
    assert 1 == len(of(story, "generation"))
    lengths = covered(FolderCheckpointStorage(RunFolder(run.folder).checkpoints).latest())
    expected = [(split, offset) for split in (0, 1) for offset in range(lengths[split])]
    assert expected == [row[:2] for row in committed_rows(tmp_path)]


def of(story: list[Happening], what: str) -> list[Happening]:
    return [each for each in story if each["what"] == what]


def attack(address: Address) -> bool:
    """Garbage, and a proof with a wrong secret; none of them is waited for."""
    with ExitStack() as stack:
        for garbage in GARBAGE:
            stack.enter_context(raw(address)).sendall(garbage)
        stack.enter_context(connect(address, bytes(32), destination=0)[1])
    return True


def raw(address: Address) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    connected.connect(b"\0" + address.encode() if isinstance(address, str) else address)
    return connected


def listening(session: int, network: str) -> Iterator[Address]:
    """Where the coordinator and the attempts of a session listen. What its JVM, the driver or the daemon of Python
    workers, which the JVM starts, listen at is Spark's own.
    """
    parents = parents_of_all()
    ours = [pid for pid in members_of(session) if is_python(pid) and is_python(parents.get(pid, 0)) and pid != session]
    inodes = {inode for pid in ours for inode in sockets_of(pid)}
    inodes -= {*sockets_of(session)}
    for line in Path("/proc/net", network).read_text().splitlines()[1:]:
        fields = line.split()
        if network == "tcp" and fields[3] == LISTENING[network] and fields[9] in inodes:
            yield "127.0.0.1", int(fields[1].rpartition(":")[2], 16)
        if network == "unix" and fields[3] == LISTENING[network] and fields[6] in inodes and fields[-1][0] == "@":
            yield fields[-1][1:]


def is_python(pid: int) -> bool:
    try:
        return "python" in Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return False  # it has just ended


def sockets_of(pid: int) -> list[str]:
    try:
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []
    return [found[1] for link in links if (found := re.fullmatch(r"socket:\[(\d+)]", link))]
