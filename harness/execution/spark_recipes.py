"""Recipes of the jobs that the Spark shell certifies with, called by name in every process of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.schedule import STANDARD
from sinkproof.judging.observer import Observer
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.reference_engine.shells.job import RESTARTS_MOST, Job
from sinkproof.reference_engine.shells.spark.deployment import Deployment
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.workload.job_names import ZOMBIE_LATE_JOB
from sinkproof.workload.job_plans import FAILURES_TOLERATED
from sinkproof.workload.jobs import INPUTS, named_job
from sinkproof.workload.ledger import Identity, Ledger

RESTARTS_WITHOUT_END: Final = 100_000  # of the long job: its purpose is to be killed often
PATIENCE_MS: Final = 2_000  # of real time; a restart that is not needed only costs time
SETTLE_MS: Final = 20_000
NO_LEDGER: Final = Ledger(INPUTS[STANDARD])
ROWS_WITHOUT_END: Final = 1 << 40  # the long job is stopped, it does not come to its end


def in_real_time(job: Job, *, restarts: int) -> Job:
    """The same job with deadlines that real processes can keep."""
    configuration = replace(job.configuration, closing_patience=PATIENCE_MS, settle_deadline=SETTLE_MS)
    return replace(job, configuration=configuration, restart=lambda: FixedDelay(attempts=restarts, delay=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectAnywhere:
    """What a process of the job needs, on any host, to have the contract and its scratch."""

    locator: str
    name: str
    folder: str
    settings: Mapping[str, Any]
    services: ServiceOptions

    def contract(self) -> Contract:
        """Imports what each attempt would otherwise import itself, too."""
        contract = load(self.locator)
        for name in contract.libraries:
            if find_spec(name.partition(".")[0]) is not None:  # else the sink says itself what it lacks
                import_module(name)
        return contract

    def scratch(self) -> Scratch:
        services = ServicesInUse(options=self.services)
        return Scratch(name=self.name, path=Path(self.folder), shell="spark", settings=self.settings, services=services)


def certifying(
    *, subject: SubjectAnywhere, job: str, files: Mapping[str, str], lines: bool, pace_ms: int = 0
) -> Deployment:
    """The small job of the other shells, its checkpoints cut by offset, watched at each decision. `pace_ms`: of its
    sources, if not its own.
    """
    contract, scratch, named = subject.contract(), subject.scratch(), named_job(job)
    own_points = contract.marks_points
    return Deployment(
        job=in_real_time(named, restarts=RESTARTS_MOST),
        make_sink=lambda: contract.sink(scratch),
        files=files,
        traces_lines=lines,
        effects_below="" if own_points else subject.folder,
        pace_ms=pace_ms or named.timing.pace,
        read_committed=lambda: readable(contract, scratch),
        rows_vanish=contract.rows != "append",
        zombies_resume_late=job == ZOMBIE_LATE_JOB,
    )


def readable(contract: Contract, scratch: Scratch) -> Sequence[Identity] | None:
    """The visible rows; None if the reader fails: before the first row there may be nothing to read."""
    observer = Observer(contract, scratch, NO_LEDGER)  # whether a failing reader matters is judged at the end
    return observer.read()


def long_running(*, subject: SubjectAnywhere, pace_ms: int, batch_rows: int, interval_ms: int) -> Deployment:
    """Generated rows without end, checkpoints by time: for hundreds of deaths over millions of rows."""
    import sinkproof.sink_adapters.files.column_lines  # noqa: F401 (what the first batch would import, in each attempt)
    from sinkproof.reference_engine.dataflow.columns import GeneratedColumns

    contract, scratch = subject.contract(), subject.scratch()
    own_points = contract.marks_points
    source = GeneratedColumns(splits=2, rows_per_split=ROWS_WITHOUT_END, batch_rows=batch_rows)
    source.batch(0, 0)  # what it keeps from then on, attempts inherit
    job = Job(
        plan=source_to_sink(source).plan(),
        configuration=CheckpointConfiguration(
            checkpoint_interval=interval_ms,
            max_concurrent_checkpoints=2,
            tolerable_checkpoint_failure_number=FAILURES_TOLERATED,
        ),
    )
    return Deployment(
        job=in_real_time(job, restarts=RESTARTS_WITHOUT_END),
        make_sink=lambda: contract.sink(scratch),
        effects_below="" if own_points else subject.folder,
        pace_ms=pace_ms,
    )
