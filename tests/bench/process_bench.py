"""The process shell in `make bench`: CPU time of a run in each kind of process, beside children that only answer, and
such that make the sink's calls and are watched by nothing.

CPU time, because the machine is noisy: 1,000 ms over it is the rate on one core; beside it the rate with a process on
each core. The parts of the engine's time come
from a profile of the same runs.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from cProfile import Profile
from functools import partial
from itertools import cycle
from pathlib import Path
from time import monotonic, process_time, thread_time
from typing import Any

from floor_children import ANSWERS

from sinkproof.campaign.workers.process_workers import WORTH, workers_beside
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer, RepeatedCall
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.generators.fault_sites import places
from sinkproof.reference_engine.shells.process.process_host import RemoteSink
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, clear_folder, fresh_folder

SUBJECT = "files/two-phase"
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
ANSWER_SECONDS = 60.0
FLOOR = "floor: a child that answers once"
AS_OFTEN = "floor: a child that answers as often as an attempt"
CALLS_ALONE = "floor: children that make the sink's calls, no more"
WITH_A_KILL = "a run with a kill"
ATTEMPTS = 4  # of two sinks, before and after the restart
USED = ("engine_ms", "fork_servers_ms", "attempts_ms", "page_faults")
PARTS = {  # of the engine's time -> file and name of the function
    "sending requests": ("child.py", "send"),
    "receiving replies": ("child.py", "receive"),
    "reading journals": ("process_host.py", "_read_journal"),
    "having attempts forked": ("process_host.py", "spawn"),
    "emptying the target": ("schedule_runner.py", "reset"),
    "reading the view": ("observer.py", "read"),
    "judging": ("schedule_runner.py", "judge"),
}
FLOOR_PRELOAD = (*PRELOAD, str(Path(__file__).with_name("floor_children.py")))
Line = dict[str, Any]
Calls = list[tuple[str, tuple[Any, ...]]]  # of one attempt: method, arguments


def ask(server: ForkServer, *, times: int) -> None:
    child = server.spawn(RepeatedCall("floor_children:answer_once" if times == 1 else "floor_children:answer_often"))
    for _ in range(times):
        child.send(b"", Deadline(ANSWER_SECONDS))
        child.receive(Deadline(ANSWER_SECONDS))
    child.join(Deadline(ANSWER_SECONDS))
    child.close()


def make_recorded_calls(server: ForkServer, attempts: list[Calls], *, folder: Path) -> None:
    clear_folder(folder)
    entry = RepeatedCall("floor_children:make_calls", SUBJECT, folder)
    for calls in attempts:
        child = server.spawn(entry)
        for each in calls:
            child.send(pickle.dumps(each), Deadline(ANSWER_SECONDS))
            child.receive(Deadline(ANSWER_SECONDS))
        child.close()


@contextmanager
def recorded() -> Iterator[dict[int, Calls]]:
    """What attempts are called with, by process id."""
    calls: dict[int, Calls] = {}
    plain_call = RemoteSink.call

    def call(sink: RemoteSink, name: str, *arguments: Any) -> Any:
        calls.setdefault(sink.child.pid, []).append((name, arguments))
        return plain_call(sink, name, *arguments)

    RemoteSink.call = call  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        RemoteSink.call = plain_call  # type: ignore[method-assign]


def floor_server() -> ForkServer:
    return ForkServer(preload=FLOOR_PRELOAD, warm=[("sinkproof.subject.loading:load", SUBJECT)])


def measure(seconds: float) -> list[Line]:
    folder = fresh_folder()
    with floor_server() as server:
        floors = {FLOOR: 1, AS_OFTEN: ANSWERS}
        rows = [
            row(what, partial(ask, server, times=times), [server], seconds=seconds) for what, times in floors.items()
        ]
    try:
        with process_runner(load(SUBJECT), Scratch(name=SUBJECT, path=folder, shell="process")) as runner:
            faults = [fault for fault in places(runner.run(Schedule()), "kill") if fault.actor.startswith("sink")]
            kills = cycle([Schedule((fault,)) for fault in faults])
            with recorded() as calls:
                runner.run(next(kills))
            with floor_server() as server:
                alone = partial(make_recorded_calls, server, [*calls.values()], folder=folder)
                rows.append(row(CALLS_ALONE, alone, [server], seconds=seconds))
            servers = [runner.servers.first, runner.servers.other()]
            for what, run in (
                ("a run without a fault", lambda: runner.run(Schedule())),
                (WITH_A_KILL, lambda: runner.run(next(kills))),
                ("the same with executed lines traced", lambda: runner.run(next(kills), trace_lines=True)),
            ):
                rows.append(row(what, run, servers, seconds=seconds))
            rows += [side_by_side(runner, kills, cores=cores, seconds=seconds) for cores in (1, os.cpu_count() or 1)]
            return [*rows, *parts(runner, kills)]
    finally:
        shutil.rmtree(folder)


def row(what: str, run: Callable[[], object], servers: list[ForkServer], *, seconds: float) -> Line:
    """Per run: ms of CPU time, and pages that the kernel copied or made for attempts."""
    run()
    before, began, own, runs = used(servers), monotonic(), process_time(), 0
    while monotonic() - began < seconds:
        run()
        runs += 1
    engine, after = 1000 * (process_time() - own), used(servers)
    server, attempts, faults = (last - first for first, last in zip(before, after, strict=True))
    figures = [round(each / runs, 1) for each in (engine, server, attempts, faults)]
    value = round(1000 * runs / (engine + server + attempts), 1)
    return {"what": what, "value": value, "unit": "per s of CPU", **dict(zip(USED, figures, strict=True))}


def side_by_side(runner: ProcessRunner, schedules: Iterator[Schedule], *, cores: int, seconds: float) -> Line:
    """Of the wall, which on a busy machine is that of all its processes."""
    with workers_beside(runner, cores) as workers:

        def run_some() -> int:
            some = [next(schedules) for _ in range(WORTH)]
            return len(list(workers.run_all(some, trace_lines=False, run=runner.run)))

        run_some()
        while not all(worker.ready for worker in workers.workers):
            run_some()
        began, runs = monotonic(), 0
        while monotonic() - began < seconds:
            runs += run_some()
        value = round(runs / (monotonic() - began), 1)
        return {"what": f"{WITH_A_KILL}, in {1 + len(workers.workers)} at a time", "value": value, "unit": "per s"}


def used(servers: list[ForkServer]) -> tuple[float, float, float]:
    """(CPU ms of the servers, CPU ms and page faults of their dead children), see proc(5)."""
    fields = [Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split() for each in servers]
    utime, stime, cutime, cstime, faults = (sum(int(each[at]) for each in fields) for at in (11, 12, 13, 14, 8))
    return TICK_MS * (utime + stime), TICK_MS * (cutime + cstime), faults


def parts(runner: ProcessRunner, schedules: Iterator[Schedule], *, runs: int = 20) -> Iterator[Line]:
    """Percent of the engine's time, and calls. The rest of the run is within the reply that a death replaces."""
    profile = Profile(thread_time)
    with profile:
        for _ in range(runs):
            runner.run(next(schedules))
    entries = [each for each in profile.getstats() if not isinstance(each.code, str)]
    seen = {(Path(each.code.co_filename).name, each.code.co_name): each for each in entries}
    whole = seen["process_runner.py", "run"].totaltime
    for what, where in PARTS.items():
        percent = round(100 * seen[where].totaltime / whole, 1)
        yield {"what": what, "value": percent, "unit": "% of engine", "calls": seen[where].callcount / runs}


def in_floors(rows: list[Line], floor: str, *, children: int = ATTEMPTS) -> float:
    """How many times as long as its attempts would take, if they were such children, a run with a kill takes."""
    per_second = {each["what"]: each["value"] for each in rows}
    return round(per_second[floor] / children / per_second[WITH_A_KILL], 1)


def table(rows: list[Line]) -> Iterator[str]:
    heads = "".join(f"{head:>10}" for head in ("/s", "engine", "servers", "attempts", "faults"))
    yield f"{'Process shell, ms of CPU time of each run':54}{heads}"
    for each in rows:
        if "calls" in each:
            yield f"  {each['what']:52}{each['value']:10} % of the engine, {each['calls']:.1f} times a run with a kill"
        elif "engine_ms" not in each:
            yield f"{each['what']:54}{each['value']:10} {each['unit']} of the wall"
        else:
            yield f"{each['what']:54}" + "".join(f"{each[name]:10}" for name in ("value", *USED))
    once, as_often = in_floors(rows, FLOOR), in_floors(rows, AS_OFTEN)
    yield f"A run with a kill takes {once} times as long as {ATTEMPTS} children that answer once,"
    alone = in_floors(rows, CALLS_ALONE, children=1)
    yield f"{as_often} times as long as {ATTEMPTS} that answer as often as its attempts do,"
    yield f"and {alone} times as long as its attempts would take for the sink's calls alone"
