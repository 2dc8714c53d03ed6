"""Real services for tests: one of a kind for a whole run, and trials of the pairs that write to it."""

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
from sinkproof.chaos.services.running_services import Entry, ServiceHandle
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.services_in_use import NODES, OWN

Service = TypeVar("Service", bound=JvmService)
Runs = Callable[[str, str], RunResult]  # of a pair, under a schedule


def give_time(items: Iterable[pytest.Item], fixtures: set[str]) -> None:
    """To tests with one of these fixtures: a service takes seconds to start, on a machine that does much else a
    minute."""
    for item in items:
        if fixtures & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(400))


def one_for_the_run(
    request: pytest.FixtureRequest,
    factory: pytest.TempPathFactory,
    kind: type[Service],
    start: Callable[[int], Service],
) -> Iterator[Service]:
    """A fixture's generator, also when several pytest workers share the service. It must not be broken: others use it.
    It ends with the process that all workers are children of. `start` is given the owner's process id."""
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


@contextmanager
def trials_against(service: JvmService) -> Iterator[Runs]:
    """Plays schedules of the pairs that write to it, with a laboratory for each pair."""
    laboratories: dict[str, ProcessRunner] = {}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv(f"SINKPROOF_{service.name.upper()}", f"external:{service.endpoint}")

        def play(pair: str, schedule: str) -> RunResult:
            if pair not in laboratories:
                folder = fresh_folder()
                stack.callback(folder.rmdir)
                scratch = Scratch(name=service.name, path=folder, shell="process")
                laboratories[pair] = stack.enter_context(process_runner(load(pair), scratch))
            return laboratories[pair].run(parse(schedule))

        yield play


@contextmanager
def trials_on_its_own(
    pair: str, factory: pytest.TempPathFactory, *, nodes: int = 1
) -> Iterator[Callable[[str], RunResult]]:
    """Plays schedules of this pair on a service of its own, which may be broken and ends with the block."""
    kind, folder = pair.partition("/")[0], fresh_folder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(factory.mktemp("state")))
        patch.setenv(NODES, str(nodes))
        patch.delenv(f"SINKPROOF_{kind.upper()}", raising=False)
        with process_runner(load(pair), Scratch(name="own", path=folder, shell="process")) as runner:
            yield lambda schedule: runner.run(parse(schedule))
            getattr(runner.contract.given, "close_readers", lambda: None)()
        OWN.pop(kind).end()
    folder.rmdir()
