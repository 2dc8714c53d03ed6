"""Real services for tests: one of a kind for a whole test run, and runners of the pairs that write to it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.chaos.services.jvm_service import JvmService
from sinkproof.chaos.services.local_service import BREAKABLE
from sinkproof.chaos.services.running_services import Entry, ServiceHandle, running
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

Service = TypeVar("Service", bound=JvmService)
RunPair = Callable[[str, str], RunResult]  # of a pair, under a schedule


def give_time(items: Iterable[pytest.Item], fixtures: set[str]) -> None:
    """Marks tests with one of these fixtures: a service starts within seconds, on a busy machine within a minute."""
    for item in items:
        if fixtures & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


def one_for_the_run(
    request: pytest.FixtureRequest,
    factory: pytest.TempPathFactory,
    kind: type[Service],
    start: Callable[[int], Service],
) -> Iterator[Service]:
    """A fixture's generator. Several pytest workers share the service, so no test may break it. It ends with their
    parent process. `start` receives the owner's process id."""
    if not hasattr(request.config, "workerinput"):
        with start(os.getpid()) as service:
            yield service
        return
    place = factory.getbasetemp().parent / f"{kind.name}.json"
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            place.write_text(json.dumps(asdict(start(os.getppid()).entry)))
    yield kind(ServiceHandle(Entry(**json.loads(place.read_text()))), owned=False)


def end_own_services(kind: str) -> None:
    """Those that contracts have started in this process, which would else live until it ends."""
    for entry in running(kind):
        if entry.owner == os.getpid() and entry.details.get(BREAKABLE):
            ServiceHandle(entry).end()


@contextmanager
def runs_against(service: JvmService, *, address: str = "") -> Iterator[RunPair]:
    """Runs schedules of the pairs that write to it, with a runner for each pair. `address`: where it is reached."""
    runners: dict[str, ProcessRunner] = {}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv(f"SINKPROOF_{service.name.upper()}", f"external:{address or service.endpoint}")

        def run_pair(pair: str, schedule: str) -> RunResult:
            if pair not in runners:
                folder = fresh_folder()
                stack.callback(folder.rmdir)
                scratch = Scratch(name=service.name, path=folder, shell="process")
                runners[pair] = stack.enter_context(process_runner(load(pair), scratch))
            return runners[pair].run(parse(schedule))

        yield run_pair


@contextmanager
def runs_on_own_service(
    pair: str, factory: pytest.TempPathFactory, *, nodes: int = 1
) -> Iterator[Callable[[str], RunResult]]:
    """Runs schedules of this pair on a service of its own, which may be broken and ends with the block."""
    kind, folder = pair.partition("/")[0], fresh_folder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(factory.mktemp("state")))
        patch.delenv(f"SINKPROOF_{kind.upper()}", raising=False)
        services = ServicesInUse(options=ServiceOptions(nodes=nodes))
        scratch = Scratch(name="own", path=folder, shell="process", services=services)
        with process_runner(load(pair), scratch) as runner:
            yield lambda schedule: runner.run(parse(schedule))
            getattr(runner.contract.given, "close_readers", lambda: None)()
        services.own.pop(kind).end()
    folder.rmdir()
