"""Faults of hosts while one run of a Spark job goes on: carried out from outside, when an attempt reaches the point.

The attempt requests the fault over a socket in the run's folder, and waits for it. Where it runs is known from its
network namespace. What was cut off is healed when a later generation runs: before that, the attempt that was cut off
goes on, beside its successor, and what it changes in the committed view is recorded.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.faults.faults_of_hosts import (
    CARRIED_OUT,
    CUT_ALL,
    CUT_IN,
    CUT_OUT,
    CUTS,
    HEAL,
    KILL_HOST,
    NOT_STRUCK,
    REFUSED,
    SLOW_LINK,
)
from sinkproof.chaos.processes.parent_death import reap_orphan
from sinkproof.chaos.services.local_service import LocalService
from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.chaos.services.spark_cluster import namespace_hosts as links
from sinkproof.chaos.services.spark_cluster.service_relays import ServiceRelays
from sinkproof.chaos.services.spark_cluster.standalone_spark import StandaloneSpark
from sinkproof.chaos.shared.event_log import Happening
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reference_engine.shells.spark.zombie_effects import record_change
from sinkproof.subject.contract import ContractError
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.workload.ledger import Identity

SILENCE_SECONDS: Final = 3  # of a host, until a job gives it up; that of a user is ten
ZOMBIE_SECONDS: Final = 2.0  # that an attempt goes on after its successor runs
SLOW_SECONDS: Final = 1.5
HEALED_SECONDS: Final = 40.0  # a cut is healed by then in any case; a recovery on other hosts takes ten
TICK_SECONDS: Final = 0.2
REQUEST_SECONDS: Final = 5.0  # between a connection and its request
REAP_SECONDS: Final = 20.0  # until the parents of what was killed are dead, too
CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid
LINK_OF: Final = {CUT_IN: links.CUT_IN, CUT_OUT: links.CUT_OUT, SLOW_LINK: links.SLOW}  # the others: CUT
ReadCommitted = Callable[[], Sequence[Identity] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHosts:
    """The hosts of a cluster that this certification has started, and how they reach its external systems."""

    spark: StandaloneSpark
    relays: ServiceRelays
    silence_seconds: int = SILENCE_SECONDS

    def why_not(self, kind: str) -> str:
        """Empty: these hosts can fail in this way."""
        return self.spark.hosts.unfit.get(LINK_OF.get(kind, links.CUT), "")


def lead_to_services(relays: ServiceRelays, services: ServicesInUse) -> None:
    """Raises ContractError for a service that this certification has not started."""
    if foreign := sorted(services.used - services.own.keys()):
        raise ContractError(
            f"the hosts of this cluster have no way to {' and '.join(foreign)}, which this certification has not "
            "started. Start it in `setup` by scratch.service(..., start=True), or name a Spark master of your own "
            "with --master"
        )
    own: Sequence[LocalService] = list(services.own.values())
    found = [address for one in own for address in (*one.endpoint.split(","), *one.direct_endpoint.split(","))]
    relays.lead_to(list(dict.fromkeys(found)))


@contextmanager
def cluster_hosts(count: int, *, tasks: int, folder: Path, shared: Sequence[Path]) -> Iterator[ClusterHosts]:
    with (
        StandaloneSpark.for_tasks(tasks, hosts=count, folder=folder, shared=shared) as spark,
        ServiceRelays(spark.hosts) as relays,
    ):
        yield ClusterHosts(spark=spark, relays=relays)


@dataclass(slots=True, kw_only=True)
class Struck:
    """A host with a fault. `pid`: of the attempt that reached the point."""

    how: str
    host: int
    pid: int
    process: int  # a pidfd
    heals: Deadline = field(default_factory=lambda: Deadline(HEALED_SECONDS))


class HostFaults:
    """A context manager around one run. `note` is given each of its events."""

    def __init__(self, hosts: ClusterHosts, folder: RunFolder, *, read: ReadCommitted, rows_vanish: bool) -> None:
        self.hosts, self.folder, self.read, self.rows_vanish = hosts, folder, read, rows_vanish
        self.struck: list[Struck] = []
        self.dead: list[int] = []  # hosts that can be reached again, and on which no worker runs yet
        self.began: dict[int, tuple[int, str]] = {}  # pid -> generation and actor that was struck
        self.ever = False  # whether any host had a fault
        self.failed: Exception | None = None  # why a fault was not carried out, or not healed; the run shows nothing
        self.lock, self.over = threading.Lock(), False
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> HostFaults:
        folder = os.open(self.folder.path, os.O_PATH | os.O_DIRECTORY)
        self.listening.bind(f"/proc/self/fd/{folder}/{self.folder.hosts.name}")
        os.close(folder)
        self.listening.listen()
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.over = True
        self.thread.join()
        self.listening.close()
        self.folder.hosts.unlink(missing_ok=True)  # the same run may be followed once more
        with self.lock:
            for one in [*self.struck]:
                with self._keeping_errors():
                    self._heal(one)
            with self._keeping_errors():
                self._revive()
        if error is None or isinstance(error, Exception):  # what went wrong may have come of the failure
            self._raise_what_failed()

    @contextmanager
    def _keeping_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the thread of the run raises it
            self.failed = self.failed or error

    def _raise_what_failed(self) -> None:
        """It is no fault of the sink."""
        if self.failed is not None:
            raise ServiceFailed(
                "a fault of a host was not carried out, or not healed",
                evidence=f"{type(self.failed).__name__}: {self.failed}",
                next_step="Run the command again; `sinkproof doctor` checks what hosts need",
            ) from self.failed

    # -- the strike --------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self.over:
            if select.select([self.listening], [], [], TICK_SECONDS)[0]:
                asking, _ = self.listening.accept()
                with asking, self.lock:
                    self._answer(asking)
            with self.lock:
                self._heal_in_time()

    def _heal_in_time(self) -> None:
        for one in [one for one in self.struck if one.heals.over]:
            with self._keeping_errors():
                self._heal(one)

    def _answer(self, asking: socket.socket) -> None:
        """Once something has failed, every request is refused: the thread of the run ends it."""
        with self._keeping_errors():
            asking.settimeout(REQUEST_SECONDS)
            how = asking.recv(64).decode()
            if self.failed is None:
                self._carry_out(how, asking)
        with suppress(OSError):  # it was on the host that was killed
            asking.send(CARRIED_OUT if self.failed is None else REFUSED)

    def _carry_out(self, how: str, asking: socket.socket) -> None:
        pid, _, _ = CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        host = self.hosts.spark.hosts.host_of(pid)
        if host is None:
            raise ProcessLookupError(f"process {pid}, which has requested {how!r}, is on none of the hosts")
        if how == HEAL:
            for one in [*self.struck]:
                self._heal(one)
        else:
            one = Struck(how=how, host=host, pid=pid, process=os.pidfd_open(pid))
            self.ever = True
            self.struck.append(one)
            self._strike(one)

    def _strike(self, one: Struck) -> None:
        hosts = self.hosts.spark.hosts
        if one.how == SLOW_LINK:
            hosts.slow_down(one.host)
            one.heals = Deadline(SLOW_SECONDS)
            return
        hosts.cut(one.host, how=LINK_OF.get(one.how, links.CUT))
        if one.how == CUT_ALL:
            self.hosts.relays.cut(one.host)
        if one.how == KILL_HOST:  # what it was connected to hears nothing of it: no reset, no last word
            for pid in self.hosts.spark.kill_host(one.host):
                status = reap_orphan(pid, deadline=Deadline(REAP_SECONDS))  # the driver's owner adopts them
                if status is not None and pid == one.pid:
                    self.folder.events().record("ended", actor="host", child=pid, status=status)

    # -- what follows ------------------------------------------------------------------------------

    def note(self, happening: Happening) -> None:
        """When a later generation runs, an attempt that was cut off goes on; then its host is healed. Raises
        ServiceFailed.
        """
        with self.lock, self._keeping_errors():
            if happening["what"] == "struck":
                self.began[happening["pid"]] = happening["generation"], happening["actor"]
            elif happening["what"] == "running":
                self._recovered(happening["generation"])
            elif happening["what"] == NOT_STRUCK:
                raise TimeoutError(f"the request of {happening['actor']} was not answered, or was refused")
            self._revive()
        self._raise_what_failed()

    def _recovered(self, generation: int) -> None:
        for one in [*self.struck]:
            began, actor = self.began.get(one.pid, (generation, ""))
            if began < generation:
                self._let_go_on(one, actor)
                self._heal(one)

    def _let_go_on(self, one: Struck, actor: str) -> None:
        if one.how not in CUTS:
            return
        before = self.read()
        self._signal(one, signal.SIGCONT)
        self.folder.events().record("woken", actor=actor, child=one.pid)
        select.select([one.process], [], [], ZOMBIE_SECONDS)
        self._signal(one, signal.SIGKILL)
        after = self.read()
        if before is not None and after is not None:
            rows = {"before": Counter(before), "after": Counter(after)}
            record_change(self.folder, actor, **rows, rows_vanish=self.rows_vanish)

    def _heal(self, one: Struck) -> None:
        self.struck.remove(one)
        try:
            self.hosts.spark.hosts.heal(one.host)
            self.hosts.relays.heal(one.host)
        finally:  # no attempt stays suspended
            if one.how in CUTS:
                self._signal(one, signal.SIGCONT)
            os.close(one.process)
        if one.how == KILL_HOST:
            self.dead.append(one.host)

    def _revive(self) -> None:
        """By the thread of the run: what it starts would die with the thread that serves."""
        while self.dead:
            self.hosts.spark.revive(self.dead.pop())

    @staticmethod
    def _signal(one: Struck, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(one.process, number)
        except ProcessLookupError:
            return
