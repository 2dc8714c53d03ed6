"""Hosts in namespaces: how a link is cut and healed, and how the external systems of this machine are reached there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import CUT, CUT_IN, CUT_OUT, SLOW, NamespaceHosts
from sinkproof.chaos.services.spark_cluster.service_relays import ServiceRelays

SECONDS = 20.0
PORT = 7001
LISTENS = """\
import socket, sys
listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listening.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
sys.stdin.readline()  # the packet is sent
listening.settimeout(0.5)
try:
    print("heard", listening.recv(1).decode())
except OSError:
    print("nothing")
"""
SAYS = """\
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b".", (sys.argv[1], int(sys.argv[2])))
"""
ASKS = """\
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=float(sys.argv[2])) as connected:
    connected.sendall(b"ping")
    connected.shutdown(socket.SHUT_WR)
    print(connected.recv(64).decode())
"""
FAMILY = """\
import os, threading
from sinkproof.chaos.processes.parent_death import die_with
parent, children = os.getpid(), []
for _ in range(40):
    children.append(os.fork())
    if not children[-1]:
        die_with(parent)
        threading.Event().wait()
print(parent, *children, flush=True)
threading.Event().wait()
"""  # most children die of their parent's death
OWNER = """\
import os, subprocess, sys
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.fork_server import children_of
from sinkproof.chaos.processes.parent_death import adopt_orphans, reap_orphan
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
adopt_orphans()

def family(hosts):
    started = subprocess.Popen(hosts.command(0, sys.executable, "-c", sys.argv[1]), stdout=subprocess.PIPE, text=True)
    return [*map(int, started.stdout.readline().split())]

try:
    with NamespaceHosts(1, shared=[]) as hosts:
        pids = family(hosts)
        killed = hosts.kill(0)
        print(sorted(pids) == killed, {reap_orphan(pid, deadline=Deadline(20.0)) for pid in pids})
        family(hosts)
except ServiceUnavailable as unavailable:
    sys.exit(print("cannot:", " ".join(str(unavailable).split())))
print(*children_of(os.getpid()))
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceHosts]:
    try:
        with NamespaceHosts(3, shared=[tmp_path_factory.mktemp("shared")]) as made:
            yield made
    except ServiceUnavailable as unavailable:
        pytest.skip(" ".join(str(unavailable).split()))


def run_python(hosts: NamespaceHosts, host: int, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = hosts.command(host, sys.executable, "-I", "-S", "-c", program, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def _hears(hosts: NamespaceHosts, *, speaker: int, listener: int) -> bool:
    """Whether a packet of one host arrives at another one."""
    address = hosts.address(listener)
    command = hosts.command(listener, sys.executable, "-I", "-S", "-c", LISTENS, address, str(PORT))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline() == "ready\n"
        run_python(hosts, speaker, SAYS, address, str(PORT))
        heard, _ = listening.communicate("sent\n")
        return heard == "heard .\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "hears", "is_heard_by_others"), [(CUT, False, False), (CUT_IN, False, True), (CUT_OUT, True, False)]
)
def test_a_host_is_cut_off_both_ways_or_one_way_and_healed(
    hosts: NamespaceHosts, how: str, hears: bool, is_heard_by_others: bool
) -> None:
    assert _hears(hosts, speaker=2, listener=1)  # each knows the other one's hardware address from then on
    assert _hears(hosts, speaker=1, listener=2)
    hosts.cut(2, how=how)
    try:
        assert hears is _hears(hosts, speaker=1, listener=2)
        assert is_heard_by_others is _hears(hosts, speaker=2, listener=1)
        assert _hears(hosts, speaker=0, listener=1)  # the others go on
    finally:
        hosts.heal(2)
    assert _hears(hosts, speaker=1, listener=2)
    assert _hears(hosts, speaker=2, listener=1)


def test_a_slow_link_is_a_property_of_both_its_ends_until_it_is_healed(hosts: NamespaceHosts) -> None:
    shown = hosts.command(1, "tc", "qdisc", "show", "dev", "eth0")
    hosts.slow_down(1)
    assert "rate 256Kbit" in subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    assert _hears(hosts, speaker=2, listener=1)
    hosts.heal(1)
    assert "rate" not in subprocess.run(shown, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_what_this_machine_cannot_do_to_a_link_is_found_at_once_and_left_alone(
    hosts: NamespaceHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An iproute2 without `locked`, and no queue that limits the rate."""
    assert {} == hosts.unfit
    put_in_place(tmp_path / "ip", refused="locked")
    put_in_place(tmp_path / "tc", refused="tbf")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with NamespaceHosts(2, shared=[tmp_path]) as made:
        assert {CUT_OUT: "no locked", SLOW: "no tbf"} == made.unfit
        assert _hears(made, speaker=1, listener=0)
        for how in (CUT, CUT_IN):
            made.cut(1, how=how)
            assert not _hears(made, speaker=0, listener=1)
            made.heal(1)
            assert _hears(made, speaker=0, listener=1)
    put_in_place(tmp_path / "ip", refused="down")
    with pytest.raises(ServiceUnavailable, match="no down"), NamespaceHosts(1, shared=[tmp_path]):
        pass


def put_in_place(tool: Path, *, refused: str) -> None:
    """A tool that does not know one word; else it is the real one."""
    others = [each for each in os.environ["PATH"].split(":") if each != str(tool.parent)]
    known = shutil.which(tool.name, path=":".join(others))
    tool.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" != {refused} ] || {{ echo no {refused} >&2; exit 2; }}; done\n'
        f'exec {known} "$@"\n'
    )
    tool.chmod(0o755)


def test_a_process_is_found_on_its_host(hosts: NamespaceHosts) -> None:
    assert hosts.host_of(hosts.holders[2].pid) == 2
    assert hosts.host_of(os.getpid()) is None


def test_what_dies_of_its_parents_death_was_killed_with_its_host_and_no_zombie_of_it_is_left() -> None:
    command = [sys.executable, "-c", OWNER, FAMILY]
    said = subprocess.run(command, capture_output=True, text=True, timeout=3 * SECONDS, check=False)
    if said.stdout.startswith("cannot:"):
        pytest.skip(said.stdout.strip())
    assert said.stdout.splitlines() == ["True {9}", ""], said.stderr


@pytest.mark.slow
def test_an_external_system_has_the_same_address_on_each_host_until_its_way_is_cut(hosts: NamespaceHosts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ServiceRelays(hosts) as relays:
        port = listening.getsockname()[1]
        threading.Thread(target=_answer_each, args=(listening,), daemon=True).start()
        assert run_python(hosts, 1, ASKS, str(port), "5").returncode != 0  # nothing listens there yet
        relays.lead_to([f"127.0.0.1:{port}", "192.0.2.1:9"])
        for host in range(3):
            assert run_python(hosts, host, ASKS, str(port), "5").stdout == "pong\n"
        relays.cut(1)
        assert "timed out" in run_python(hosts, 1, ASKS, str(port), "0.3").stderr
        assert run_python(hosts, 2, ASKS, str(port), "5").stdout == "pong\n"
        relays.heal(1)
        assert run_python(hosts, 1, ASKS, str(port), "5").stdout == "pong\n"
        process = relays.process
    assert process is not None
    assert process.returncode is not None


def _answer_each(listening: socket.socket) -> None:
    while True:
        try:
            connected, _ = listening.accept()
        except OSError:
            return
        with connected:
            connected.recv(64)
            connected.sendall(b"pong")


def test_what_lies_below_a_folder_of_each_host_is_shared_only_if_it_is_named(tmp_path: Path) -> None:
    named, other = tmp_path / "named", tmp_path / "other"
    named.mkdir()
    other.mkdir()
    made = NamespaceHosts(1, shared=[named])
    assert [str(named)] == [folder for folder in made._seen_by_all() if folder.startswith(str(tmp_path))]
