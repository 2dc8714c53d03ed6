"""Growth in `make bench`: how CPU time and memory grow with a sink's lines, its imports, and the size of the job.

Each row is one process of its own, which runs the same schedules on a sink of the given size. An exponent of 1 is
linear growth between two rows. `python growth_bench.py lines 500` prints one row.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import log
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import monotonic, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from process_bench import used

from sinkproof.certifier.certify import Options, certify
from sinkproof.chaos.schedule import STANDARD, Schedule
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import places
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder
from sinkproof.workload.jobs import EVERY_JOB, INPUTS, JobSpec, named_job

SIZES: dict[str, tuple[int | str, ...]] = {
    "lines": (50, 500, 5000),
    "imports": ("none", "pyarrow", "pandas"),
    "sinks": (2, 8, 32),
    "checkpoints": (4, 40),
    "rows": (24, 100_000),
    "subjects": (1, 30),
}
RUNS = 4  # each with one kill
JOB = "growth"
KEYS = 64
CLOSING_MS = 600
SINK = """
import json
import IMPORTED

from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {}

    def open(self, context):
        self.context = context
        for subtask, state in context.restored:
            for checkpoint_id, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint_id}", rows)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        x = 0
        STATEMENTS
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [older for older in self.pending if older <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending.pop(older))

    def publish(self, name, rows):
        (self.folder / f"{name}REPEATED.json").write_text(json.dumps(rows))
"""
CONTRACT = """

class ContractNUMBER:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""
Figures = dict[str, Any]


def written(folder: Path, *, lines: int = 50, imported: str = "json", contracts: int = 1, repeats: bool = False) -> str:
    """A sink with so many lines; `repeats`: it is wrong, so that its certification ends soon."""
    statements = "\n        ".join(["x += 1"] * max(1, lines - 28))
    text = SINK.replace("IMPORTED", imported).replace("STATEMENTS", statements)
    text = text.replace("REPEATED", "-{self.context.generation}" if repeats else "")
    text += "".join(CONTRACT.replace("NUMBER", str(number)) for number in range(contracts))
    (folder / "grown_sink.py").write_text(text)
    return f"{folder}/grown_sink.py:Contract"


def job_of(*, sinks: int = 2, rows: int = 24, checkpoints: int = 3) -> None:
    """Makes the job that the schedules name."""
    rows_per_split = max(rows, 4 * checkpoints) // 2
    batch = max(1, rows_per_split // (2 * checkpoints))

    def make(split: int, offset: int) -> Row:
        return Row(split, offset, f"k{offset % KEYS}", f"v{split}.{offset}", offset * 1000)

    source = GeneratedInput(make, rows_per_split=rows_per_split, batch_rows=batch)
    standard = named_job(STANDARD)
    # The last of 32 sinks is opened and notified 68 ms after the final decision.
    configuration = replace(standard.configuration, closing_patience=CLOSING_MS)
    job = replace(standard, plan=source_to_sink(source, sinks=sinks).plan(), configuration=configuration)
    EVERY_JOB[JOB], INPUTS[JOB] = JobSpec(sentence="grown", job=job, source=source), source


def measured(what: str, size: str) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        if what == "subjects":
            return of_subjects(Path(folder), int(size))
        job_of(**{what: int(size)} if what in ("sinks", "rows", "checkpoints") else {})
        lines, imported = int(size) if what == "lines" else 50, size if what == "imports" and size != "none" else "json"
        locator = written(Path(folder), lines=lines, imported=imported) + "0"
        beside = {"import_ms": import_ms(imported)} if what == "imports" else {}
        return {"what": what, "size": size, **of_runs(locator, traced=what == "lines"), **memory(), **beside}


def of_runs(locator: str, *, traced: bool) -> Figures:
    """CPU time of a run in both shells, the second with a kill, and the number of places where one could strike."""
    contract, standard = load(locator), Schedule(job=JOB)
    with scratch_folder() as folder, ScheduleRunner(contract, Scratch(name=JOB, path=folder)) as simulated:
        simulated.find_own_files()
        simulated.run(standard)
        began = process_time()
        for _ in range(RUNS):
            simulated.run(standard, trace_lines=traced)
        simulated_ms = 1000 * (process_time() - began) / RUNS
    with (
        scratch_folder() as folder,
        process_runner(contract, Scratch(name=JOB, path=folder, shell="process")) as runner,
    ):
        found = list(places(runner.run(standard, trace_lines=traced), "kill", lines=traced))
        faults = [fault for fault in found if fault.actor.startswith("sink")]
        runner.run(standard)
        return {
            "simulated_ms": round(simulated_ms, 1),
            "process_ms": round(cpu_ms(runner, [Schedule((fault,), job=JOB) for fault in spread(faults)], traced), 1),
            "places": len(faults),
        }


def import_ms(module: str) -> float:
    """CPU time of a fresh interpreter that imports it: each attempt's, if it did not inherit the module."""
    before = getrusage(RUSAGE_CHILDREN)
    for _ in range(RUNS):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    after = getrusage(RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(1000 * seconds / RUNS, 1)


def spread(faults: list[Any]) -> Iterator[Any]:
    return islice(faults, 0, None, max(1, len(faults) // RUNS))


def cpu_ms(runner: ProcessRunner, schedules: list[Schedule], traced: bool) -> float:
    """Of each run: of this process, the fork servers and the attempts."""
    servers = [runner.servers.first, runner.servers.other()]
    before, began = used(servers), process_time()
    for schedule in schedules:
        runner.run(schedule, trace_lines=traced)
    after = used(servers)
    return (1000 * (process_time() - began) + sum(after[:2]) - sum(before[:2])) / len(schedules)


def of_subjects(folder: Path, count: int) -> Figures:
    """A whole certification of wrong sinks: seconds for each of them."""
    locator = written(folder, contracts=count, repeats=True)
    options = Options(shells=("simulated",), budget_seconds=0.2, canaries=False, cores=1)
    began = monotonic()
    document = certify([f"{locator}{number}" for number in range(count)], folder / "out", options=options)
    seconds = monotonic() - began
    assert {"violated"} == {subject["verdict"] for subject in document["subjects"]}
    runs = sum(shell["schedules_run"] for subject in document["subjects"] for shell in subject["shells"])
    return {"what": "subjects", "size": str(count), "process_ms": round(1000 * seconds, 1), "places": runs, **memory()}


def memory() -> Figures:
    """The largest that this process was, and the largest of those that it has started.

    Not `ru_maxrss` of this process: that is inherited from the one that has started it, see getrusage(2).
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    own_kib = int(status.partition("VmHWM:")[2].split()[0])
    return {"own_mib": own_kib >> 10, "others_mib": getrusage(RUSAGE_CHILDREN).ru_maxrss >> 10}


def measure() -> list[Figures]:
    rows = []
    for what, sizes in SIZES.items():
        for size in sizes:
            command = [sys.executable, __file__, what, str(size)]
            rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return rows


def table(rows: list[Figures]) -> Iterator[str]:
    """`places`: at which a kill can strike; of subjects: schedules run."""
    heads = "".join(f"{head:>{width}}" for head, width in (("simulated", 11), ("process", 11), ("exponent", 10)))
    yield f"{'Growth: ms of CPU time of a run (subjects: in all)':52}{heads}"
    before: Figures = {}
    for row in rows:
        same = before.get("what") == row["what"]
        exponent = f"{exponent_of(before, row):.2f}" if same and row["size"].isdecimal() else ""
        figures = f"{row.get('simulated_ms', ''):>11}{row['process_ms']:>11}{exponent:>10}"
        beside = f"{row['places']:>9} places, {row['own_mib']} MiB, others {row['others_mib']} MiB"
        if "import_ms" in row:
            beside += f", a fresh interpreter imports it in {row['import_ms']} ms"
        yield f"{row['what'] + ' ' + row['size']:52}{figures}{beside}"
        before = row


def exponent_of(before: Figures, row: Figures) -> float:
    return log(row["process_ms"] / before["process_ms"]) / log(int(row["size"]) / int(before["size"]))


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
