"""Faults of hosts that cannot be carried out or healed: no effect, no strike that counts, and no blame for the sink."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults.faults_of_hosts import CUT, CUT_ALL, CUT_OUT, HEAL, NOT_STRUCK, SLOW_LINK
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable
from sinkproof.execution.host_faults import ClusterHosts, HostFaults, Struck, lead_to_services
from sinkproof.reference_engine.shells.spark import process_fault_points
from sinkproof.reference_engine.shells.spark.driver_supervisor import SparkFailed
from sinkproof.reference_engine.shells.spark.process_fault_points import Points
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.subject.contract import ContractError
from sinkproof.subject.services_in_use import ServicesInUse


class Links:
    """Of hosts; in place of a NamespaceHosts. `broken`: what cannot be done."""

    def __init__(self, *broken: str) -> None:
        self.broken, self.done = broken, list[str]()

    def do(self, what: str) -> None:
        if what in self.broken:
            raise ServiceUnavailable("the hosts could not be joined", evidence=f"no {what} here", next_step="None")
        self.done.append(what)

    def host_of(self, pid: int) -> int | None:
        return None if "host" in self.broken else 1

    def cut(self, host: int, *, how: str) -> None:
        self.do(how)

    def slow_down(self, host: int) -> None:
        self.do("slow")

    def heal(self, host: int) -> None:
        self.do("heal")


class Relays:
    """In place of ServiceRelays."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken

    def cut(self, host: int) -> None:
        if "relay" in self.broken:
            raise ServiceFailed("the relay has ended", evidence="no relay here", next_step="None")

    def heal(self, host: int) -> None:
        """Nothing was cut."""

    def lead_to(self, addresses: Sequence[str]) -> None:
        self.known = addresses


class Spark:
    """In place of a StandaloneSpark."""

    def __init__(self, hosts: Links) -> None:
        self.hosts = hosts


class Attempt(Points):
    """Remembers that it would be suspended."""

    stopped = False

    def stop_actor(self) -> None:
        self.stopped = True


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def attempt(folder: RunFolder) -> Attempt:
    return Attempt(folder, "sink[0]", events=folder.events())


def hosts_with(*broken: str) -> ClusterHosts:
    made: Any = Spark(Links(*broken)), Relays(*broken)
    return ClusterHosts(spark=made[0], relays=made[1])


def faults_on(folder: RunFolder, *broken: str) -> HostFaults:
    return HostFaults(hosts_with(*broken), folder, read=lambda: None, rows_vanish=False)


def whats(folder: RunFolder) -> Iterator[str]:
    reader = folder.events_reader()
    yield from (each["what"] for each in reader.new())
    reader.close()


def test_a_fault_that_is_carried_out_suspends_the_attempt_and_is_healed(folder: RunFolder, attempt: Attempt) -> None:
    with faults_on(folder) as faults:
        attempt.strike_host(CUT_OUT)
        assert attempt.stopped
        attempt.strike_host(HEAL)
    links: Any = faults.hosts.spark.hosts
    assert [CUT_OUT, "heal"] == links.done
    assert [] == [*whats(folder)]


@pytest.mark.parametrize(
    ("how", "broken"), [(CUT, "cut"), (CUT_OUT, "cut-out"), (CUT_ALL, "relay"), (SLOW_LINK, "slow"), (CUT, "host")]
)
def test_a_fault_that_is_not_carried_out_has_no_effect_and_is_no_fault_of_the_sink(
    folder: RunFolder, attempt: Attempt, how: str, broken: str
) -> None:
    faults = faults_on(folder, broken)

    def follow_the_run() -> None:
        with faults:
            attempt.strike_host(how)
            attempt.strike_host(CUT_OUT)  # is answered, and refused: the run is over
            faults.note({"what": "complete"})

    with pytest.raises(ServiceFailed, match=f"no {broken} here|is on none of the hosts"):
        follow_the_run()
    with pytest.raises(ServiceFailed, match="was not carried out, or not healed"):
        faults.note({"what": "complete"})
    assert not attempt.stopped
    assert [NOT_STRUCK, NOT_STRUCK] == [*whats(folder)]
    assert not faults.thread.is_alive()


@pytest.mark.parametrize(
    ("its_end", "raised"), [(SparkFailed("no progress"), ServiceFailed), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_job_that_failed_because_a_link_was_not_healed_convicts_no_sink(
    folder: RunFolder, attempt: Attempt, its_end: BaseException, raised: type[BaseException]
) -> None:
    """An interruption stays one."""

    def follow_the_run() -> None:
        with faults_on(folder, "heal"):
            attempt.strike_host(CUT)
            attempt.strike_host(HEAL)
            raise its_end

    with pytest.raises(raised):
        follow_the_run()


@pytest.mark.parametrize("seconds", [0.0, 600.0])
def test_an_attempt_goes_on_although_its_link_was_not_healed(folder: RunFolder, seconds: float) -> None:
    """Neither by itself, when its time is over, nor when the run ends."""
    faults = faults_on(folder, "heal")

    def follow_the_run(one: Struck) -> None:
        with faults:
            faults.struck.append(one)
            if not seconds:
                os.waitid(os.P_PID, one.pid, os.WCONTINUED | os.WNOWAIT)

    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED)
            process, heals = os.pidfd_open(child.pid), Deadline(seconds)
            with pytest.raises(ServiceFailed, match="no heal here"):
                follow_the_run(Struck(how=CUT, host=1, pid=child.pid, process=process, heals=heals))
            assert os.waitid(os.P_PID, child.pid, os.WCONTINUED | os.WNOHANG) is not None
        finally:
            child.kill()


def test_an_attempt_without_an_answer_goes_on_and_the_run_shows_nothing(
    folder: RunFolder, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_fault_points, "STRIKE_SECONDS", 0.05)
    attempt.strike_host(CUT)  # nothing listens
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(folder.hosts))
        listening.listen()
        attempt.strike_host(CUT)  # nothing answers
    folder.hosts.unlink()
    assert not attempt.stopped
    assert [NOT_STRUCK, NOT_STRUCK] == [*whats(folder)]
    with pytest.raises(ServiceFailed, match="not answered, or was refused"), faults_on(folder) as faults:
        faults.note({"what": NOT_STRUCK, "actor": "sink[0]"})


def test_hosts_refuse_an_external_system_that_they_have_no_way_to() -> None:
    hosts, services = hosts_with(), ServicesInUse()
    services.used.add("kafka")
    with pytest.raises(ContractError, match="have no way to kafka, which this certification has not started"):
        lead_to_services(hosts.relays, services)
