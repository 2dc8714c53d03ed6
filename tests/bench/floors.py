"""Floors in `make bench`: what the least that a figure is made of takes, on this machine and in this run.

What a figure takes beyond its floor is sinkproof's own: the rest is Python, the JVM, the kernel and the disk.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from sinkproof.chaos.processes.parent_death import die_with
from sinkproof.chaos.schedule import Schedule
from sinkproof.generators.fault_sites import places
from sinkproof.reference_engine.checkpointing.memory_storage import FIRST_GENERATION, MemoryCheckpointStorage
from sinkproof.reference_engine.shells.simulated.in_process_host import InProcessHost
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.workload.jobs import named_job

RECORD_BYTES = 4096  # of a checkpoint's decision
TIMES = 20


class IdleSink:
    """Has nothing to do."""

    def open(self, context: Any) -> None: ...

    def write(self, batch: Any) -> None: ...

    def snapshot(self, checkpoint_id: int) -> bytes:
        return b""

    def notify_complete(self, checkpoint_id: int) -> None: ...


class Unwatched:
    """Reads nothing."""

    def deciding(self, job: Any, record: Any) -> None: ...

    def deploying(self, job: Any) -> None: ...

    def injecting(self, job: Any, fault: Any) -> None: ...

    def resuming(self, job: Any, actor: str) -> None: ...

    def resumed(self, job: Any, actor: str) -> None: ...

    def ended(self, job: Any) -> None: ...


def engine_alone(schedule: Schedule) -> Simulation:
    """The same job and fault without a target, a view that is read, or an oracle that is asked."""
    storage = MemoryCheckpointStorage(generation=FIRST_GENERATION - 1)
    host = InProcessHost(IdleSink)
    run = Simulation(named_job(schedule.job), host, storage=storage, watcher=Unwatched(), schedule=schedule)
    run.play()
    return run


def engine_rate(*, seconds: float, kinds: Sequence[str]) -> float:
    """Runs a second of one core."""
    passed = engine_alone(Schedule())
    faults = [fault for kind in kinds for fault in places(passed, kind)]
    began = process_time()
    for runs, fault in enumerate(cycle(faults), 1):
        engine_alone(Schedule((fault,)))
        if process_time() - began >= seconds:
            return runs / (process_time() - began)
    raise AssertionError("a run without faults passes points")


class DiskCalls:
    """What runs ask of a disk, to be asked again without them. `kind`: the class of the disk."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.calls: list[tuple[Any, str, tuple[Any, ...], Any]] = []  # (disk, method, arguments, what it returned)
        self.is_inside = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        methods = {name: each for name, each in vars(self.kind).items() if callable(each) and not name.startswith("_")}
        for name, method in methods.items():
            setattr(self.kind, name, self._recorded(name, method))
        try:
            yield
        finally:
            for name, method in methods.items():
                setattr(self.kind, name, method)

    def _recorded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(disk: Any, *arguments: Any) -> Any:
            if self.is_inside:
                return method(disk, *arguments)
            self.is_inside, returned = True, None
            try:
                returned = method(disk, *arguments)
                return returned
            finally:
                self.is_inside = False
                self.calls.append((disk, name, arguments, returned))

        return call

    def seconds(self) -> float:
        """Of this process on a processor."""
        opened: dict[int, Any] = {}
        began = process_time()
        for disk, name, arguments, returned in self.calls:
            with suppress(OSError):  # as then
                again = getattr(disk, name)(*(opened.get(id(each), each) for each in arguments))
                if name == "create":
                    opened[id(returned)] = again
        return process_time() - began


def rate_with_disk(engine: float, *, kind: type, run: Callable[[Schedule], Any], runs: int = 200) -> float:
    """Runs a second of one core, of the engine alone (`engine`: its rate) and the calls to the disk alone."""
    asked = DiskCalls(kind)
    faults = list(places(run(Schedule()), "kill"))
    with asked.recording():
        for fault, _ in zip(cycle(faults), range(runs)):
            run(Schedule((fault,)))
    return 1 / (1 / engine + asked.seconds() / runs)


def forced_ms(folder: Path, *, sizes: Sequence[int], times: int = TIMES) -> float:
    """What a checkpoint waits for: a file of each size at once, forced and renamed, then a small one likewise."""

    def force(name: str, data: bytes) -> None:
        temporary = folder / f"{name}.temporary"
        with temporary.open("wb") as file:
            file.write(data)
            os.fsync(file.fileno())
        temporary.rename(folder / name)
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    random = Random(0)
    data = [random.randbytes(size) for size in sizes]
    took = []
    with ThreadPoolExecutor(len(sizes)) as pool:
        for number in range(times):
            began = perf_counter()
            list(pool.map(force, [f"{number}-{each}" for each in range(len(sizes))], data))
            force(f"{number}-decided", bytes(RECORD_BYTES))
            took.append(1000 * (perf_counter() - began))
    return sorted(took)[times // 2]


def spark_starts_per_minute(times: int) -> float:
    """A driver starts Spark as ours does, and is killed with its JVM as soon as that is there."""
    began = perf_counter()
    for _ in range(times):
        with TemporaryDirectory() as folder:
            command = [sys.executable, __file__, folder]
            driver = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
            )
            assert driver.stdout is not None
            ready = driver.stdout.readline()
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            driver.stdout.close()
            assert ready, "Spark did not start"
    return 60 * times / (perf_counter() - began)


def start_spark(folder: str) -> None:
    from sinkproof.reference_engine.shells.spark.spark_session import start_session

    die_with(os.getppid())
    start_session(folder=Path(folder))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    start_spark(sys.argv[1])
