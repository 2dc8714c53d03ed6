"""SIGKILL of the process that made hosts: everything on them ends, and nothing of them stays on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.services.running_services import await_exit

from ...support.process_states import is_alive

SECONDS = 60.0
OWNER = """\
import os, subprocess, sys, threading
from pathlib import Path
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.chaos.services.spark_cluster.service_relays import ServiceRelays
try:
    hosts = NamespaceHosts(3, shared=[Path(sys.argv[1])]).__enter__()
except ServiceUnavailable as unavailable:
    sys.exit(print("cannot:", " ".join(str(unavailable).split())))
relays = ServiceRelays(hosts)
relays.lead_to(["127.0.0.1:9092"])
run = ["setpriv", "--pdeathsig", "KILL", "sleep", "600"]
running = [subprocess.Popen(hosts.command(host, *run)) for host in range(3)]
hosts.cut(1)
hosts.slow_down(2)
pids = [*(hosts.pid(host) for host in range(3)), hosts.switch.pid, relays.process.pid, *(one.pid for one in running)]
print(*pids, flush=True)
threading.Event().wait()
"""


def test_nothing_of_the_hosts_outlives_the_kill_of_the_process_that_made_them(tmp_path: Path) -> None:
    links, mounts = os.listdir("/sys/class/net"), _mounts_below(tmp_path)
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        line = owner.stdout.readline()
        if line.startswith("cannot:"):
            pytest.skip(line.strip())
        pids = list(map(int, line.split()))
        networks = {_network_of(pid) for pid in pids} - {_network_of("self")}
        assert 4 <= len(networks)  # three hosts and the switch
    finally:
        owner.kill()
        owner.communicate()
    deadline = Deadline(SECONDS)
    while left := [pid for pid in pids if is_alive(pid)]:
        assert not deadline.over, left
        await_exit(left[0], 0.05)
    everywhere = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert [] == [pid for pid in everywhere if _network_of(pid) in networks]
    assert links == os.listdir("/sys/class/net")
    assert mounts == _mounts_below(tmp_path)


def _network_of(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _mounts_below(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
