"""Starts the driver for `certify --fan-out`, waits for executors, and refuses those that run other code than this host.

Everything that can be wrong is said before the first schedule: a master that cannot be reached, hosts without
sinkproof, a subject that is not found there, or not the same.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sinkproof.campaign.fan_out.hub_connection import FanOut
from sinkproof.campaign.fan_out.loaded_code import WORKERS, LoadedCode, loaded_code
from sinkproof.campaign.fan_out.slot_hub import HubOrder, HubState
from sinkproof.campaign.fan_out.slot_task import SlotOrder
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer, ForkServerError
from sinkproof.chaos.services.cache_folders import running_folder
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.standalone_spark import StandaloneSpark, hosts_in
from sinkproof.reference_engine.shells.spark.driver_supervisor import Cluster, SparkFailed
from sinkproof.reference_engine.shells.spark.java_installation import SparkUnavailable, check_available
from sinkproof.reference_engine.shells.spark.peer_authentication import new_secret
from sinkproof.reports.progress import Progress
from sinkproof.subject.loading import found_anywhere
from sinkproof.subject.scratch import scratch_folder

HUB: Final = "sinkproof.campaign.fan_out.slot_hub"
SECONDS: Final = 120.0  # until the first slot is there, or as many as are known; it takes an idle machine six
POLL_SECONDS: Final = 0.1
FAILURES_MOST: Final = 3  # of tasks, before the first slot is there: Spark begins them again for ever
RETRIES: Final = 100_000  # a lost executor, or a killed Python worker, is an ordinary event
LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:, *\d+)?\])?")
LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[ *(\d+) *, *(\d+) *, *\d+ *\]")
KEPT_HERE: Final = "the campaign's own process, closures, the canaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class FannedOut:
    """`said`: where, and what is kept on this machine. `cluster`: the one that runs the driver."""

    access: FanOut
    said: str
    cluster: Cluster

    def look(self) -> HubState:
        state: HubState = self.cluster.call(f"{HUB}:look")
        return state


@contextmanager
def fanned_out(master: str, locators: Sequence[str], *, progress: Progress) -> Iterator[FannedOut]:
    """While slots are offered. Raises ServiceUnavailable."""
    try:
        check_available()
    except SparkUnavailable as error:
        raise ServiceUnavailable(
            f"--fan-out {master} needs Spark", evidence=str(error), next_step="Without --fan-out no Spark is needed"
        ) from error
    here = os.getcwd()
    expected = _own_code(locators, folder=here)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        cluster = Cluster(folder=folder, master=_with_retries(master), say=progress.say)
        if count := hosts_in(master):
            progress.say(f"starting a Spark cluster of {count} hosts on this machine")
            hosts = stack.enter_context(_hosts(count, folder=folder, locators=locators))
            cluster.be_on(hosts.master, inside=hosts.command(), environment=hosts.environment, slots=hosts.slots)
        stack.callback(cluster.close)
        progress.say(f"starting Spark: {master} runs a part of the schedules")
        access = FanOut(socket=str(folder / "hub"), secret=new_secret())
        slot = SlotOrder(
            secret=access.secret,
            locators=tuple(map(found_anywhere, locators)),
            expected=expected,
            path=tuple(map(os.path.abspath, sys.path)),
            folder=here,
        )
        order = HubOrder(campaigns=access.socket, master=cluster.master, slot=slot)
        try:
            cluster.start()
            cluster.call(f"{HUB}:open_hub", order)
            found = _await_slots(cluster, wanted=slots_in(master) or cluster.slots_of_all, progress=progress)
        except SparkFailed as error:
            raise ServiceUnavailable(
                f"no schedules can run on {master}",
                evidence=" ".join(str(error).split())[-600:],
                next_step="Name a master that this host reaches, or leave out --fan-out",
            ) from error
        said = f"schedules ran on {master}, too: {_by_host(found)} at the start"
        said += f". {cluster.lacks}" if cluster.lacks else ""
        yield FannedOut(access=access, said=f"{said}. Kept on this machine: {KEPT_HERE}", cluster=cluster)


def _own_code(locators: Sequence[str], *, folder: str) -> LoadedCode:
    """What this host loads. What cannot be loaded here has been refused by now."""
    try:
        with ForkServer(preload=WORKERS) as server:
            return loaded_code(server, tuple(map(found_anywhere, locators)), folder=folder)
    except ForkServerError as error:
        raise ServiceUnavailable(
            "no worker process can be started", evidence=str(error), next_step="Leave out --fan-out"
        ) from error


@contextmanager
def _hosts(count: int, *, folder: Path, locators: Sequence[str]) -> Iterator[StandaloneSpark]:
    """Host 0 has master and driver; the cores of this machine are shared among the others."""
    workers = max(1, count - 1)
    files = [Path(found_anywhere(locator).partition(":")[0]) for locator in locators]
    shared = [Path(os.path.abspath(place)) for place in sys.path] + [file.parent for file in files if file.is_file()]
    found = dict.fromkeys([folder, Path.cwd(), running_folder(), *filter(os.path.isdir, shared)])
    cores = max(1, (os.cpu_count() or 1) // workers)
    with StandaloneSpark(workers, cores=cores, folder=folder / "hosts", shared=[*found]) as hosts:
        yield hosts


def _with_retries(master: str) -> str:
    """A task of `local[2]` that fails once would end the whole job."""
    match = LOCAL.fullmatch(master)
    return f"local[{match[1] or 1},{RETRIES}]" if match else master


def slots_in(master: str) -> int:
    """How many a master names; 0: it does not say."""
    if match := LOCAL.fullmatch(master):
        return os.cpu_count() or 1 if match[1] == "*" else int(match[1] or 1)
    match = LOCAL_CLUSTER.fullmatch(master)
    return int(match[1]) * int(match[2]) if match else 0


def _await_slots(cluster: Cluster, *, wanted: int, progress: Progress) -> HubState:
    deadline, said = Deadline(SECONDS), -1
    while True:
        state: HubState = cluster.call(f"{HUB}:look")
        if state.unfit:
            unfit = state.unfit[0]
            raise ServiceUnavailable(
                f"{unfit.host} does not run the same code as this host",
                evidence=f"it {unfit.why}",
                next_step="Share the subject's folder with every host under the same path, and install the same "
                "packages there",
            )
        if state.ended or (state.failed > FAILURES_MOST and not state.slots):
            raise SparkFailed(state.ended or _no_python(state.failed, cluster.log))
        if len(state.slots) >= max(1, wanted):
            return state
        if deadline.over:
            if state.slots:
                return state
            raise SparkFailed(f"no executor has begun a task in {SECONDS:.0f} s. Spark wrote: {cluster.log}")
        if len(state.slots) != said:
            said = len(state.slots)
            progress.say(f"waiting for executors: {said} of {wanted or 'at least 1'} slots")
        threading.Event().wait(POLL_SECONDS)


def _no_python(failed: int, log: str) -> str:
    return (
        f"{failed} tasks failed before one could begin: sinkproof has to be installed on every host, for "
        f"{sys.executable}. Spark wrote: {log}"
    )


def _by_host(state: HubState) -> str:
    counts = Counter(slot.host for slot in state.slots)
    return ", ".join(f"{count} slots on {host}" if count > 1 else f"1 slot on {host}" for host, count in counts.items())
