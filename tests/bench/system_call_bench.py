"""Watched system calls in `make bench`: what one costs, beside strace in the same run, and kills of native commands.

A program writes a byte so many times; the time of a run without a watch is taken off. Aims: below strace, and 60 us.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from sinkproof.campaign.outward_coverage import kills
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.system_calls.unforced_changes import UnforcedChanges
from sinkproof.chaos.system_calls.watched_program import watched
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.subject.command_contract import locator
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder

CALLS: Final = 3000
REPEATS: Final = 5
AIM_US: Final = 60
COMMANDS: Final = Path(__file__).parents[1] / "support/commands"
READER: Final = """sh -c 'cat "$SINKPROOF_SCRATCH"/out-* 2>/dev/null || true'"""
WRITER: Final = 'open F, ">", $ARGV[0]; for (1..$ARGV[1]) { syswrite F, "x" }'
STRACE: Final = ["strace", "-f", "--seccomp-bpf", "-e", "trace=write", "-o", "/dev/null"]
Row = dict[str, Any]


def measure(seconds: float) -> list[Row]:
    rows = [*cost_of_a_call()]
    commands = {"perl": f"perl {COMMANDS / 'sink.pl'} right"}
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("javac"):
            subprocess.run(["javac", "-d", folder, COMMANDS / "Sink.java"], check=True, capture_output=True)
            commands["java"] = f"java -XX:TieredStopAtLevel=1 -cp {folder} Sink right"
        for name, command in commands.items():
            value = kills_a_minute(command, seconds=seconds)
            rows.append({"what": f"a command in {name}, killed before its calls", "value": value, "unit": "kills/min"})
    return rows


def cost_of_a_call() -> Iterator[Row]:
    """Microseconds for each of many writes."""
    with tempfile.TemporaryDirectory() as name, ForkServer() as server:
        folder = Path(name)
        words = ["perl", "-e", WRITER, str(folder / "rows")]
        plain = wall(words) - wall(words, calls=0)
        empty = watched_wall(server, words, folder, calls=0)
        yield row("a watched call", watched_wall(server, words, folder) - empty - plain, aim=AIM_US)
        record = UnforcedChanges(name)
        noted = watched_wall(server, words, folder, record=record)
        yield row("the same, noted for losses of power", noted - empty - plain)
        record.close()
        if shutil.which("strace"):
            yield row("the same call under strace", wall([*STRACE, *words]) - wall([*STRACE, *words], calls=0) - plain)
        else:
            yield {"what": "there is no strace to compare with", "value": None, "unit": ""}


def row(what: str, seconds: float, **more: int) -> Row:
    return {"what": what, "value": round(1e6 * seconds / CALLS, 1), "unit": "us more", **more}


def least(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs: others on this machine make a run slower, never faster."""
    times = []
    for _ in range(REPEATS):
        began = perf_counter()
        run()
        times.append(perf_counter() - began)
    return min(times)


def wall(words: list[str], *, calls: int = CALLS) -> float:
    return least(lambda: subprocess.run([*words, str(calls)], check=True))


def watched_wall(
    server: ForkServer, words: list[str], folder: Path, *, calls: int = CALLS, record: UnforcedChanges | None = None
) -> float:
    def run() -> None:
        with watched(server, [*words, str(calls)], folder, variables={}, record=record) as (child, _):
            assert child.join(Deadline(600)) == 0

    return least(run)


def kills_a_minute(command: str, *, seconds: float) -> float:
    with runner_of(command) as runner:
        schedules = cycle([Schedule((kill,)) for kill in kills(runner.run(Schedule()))])
        began, killed = perf_counter(), 0
        while not killed or perf_counter() - began < seconds:
            killed += runner.run(next(schedules)).kills
        return round(60 * killed / (perf_counter() - began), 1)


@contextmanager
def runner_of(command: str) -> Iterator[ProcessRunner]:
    contract = load(locator(command, READER, "EXACTLY_ONCE"))
    with (
        scratch_folder() as folder,
        process_runner(contract, Scratch(name="bench", path=folder, shell="process")) as runner,
    ):
        yield runner


def table(rows: list[Row]) -> Iterator[str]:
    yield "Watched system calls"
    for each in rows:
        aim = f"{each['aim']:8} aimed at" if "aim" in each else ""
        yield f"  {each['what']:52}{each['value'] if each['value'] is not None else '':>10} {each['unit']}{aim}"
