"""What the Spark shell runs when it certifies: recipes, called by name in every process of the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sinkproof.contract import load
from sinkproof.reference_engine.restart import FixedDelay
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.spark.deployment import Deployment
from sinkproof.scratch import Scratch
from sinkproof.source_files import files_of
from sinkproof.workload import LATE_JOB, named_job

RESTARTS_MOST: Final = 100_000  # deaths are what this is about
PATIENCE_MS: Final = 2_000  # of real time; a restart that nobody needed would only cost time
SETTLE_MS: Final = 20_000


def in_real_time(job: Job) -> Job:
    """The same job with deadlines that real processes can keep."""
    configuration = replace(job.configuration, closing_patience=PATIENCE_MS, settle_deadline=SETTLE_MS)
    return replace(job, configuration=configuration, restart=lambda: FixedDelay(attempts=RESTARTS_MOST, delay=0.0))


def certifying(*, locator: str, name: str, folder: str, job: str, lines: bool, settings: dict[str, Any]) -> Deployment:
    """The small job of the other shells, with its checkpoints cut by offset."""
    contract = load(locator)
    scratch = Scratch(name=name, path=Path(folder), shell="spark", settings=settings)
    own_points = getattr(contract.given, "marks_points", False)
    return Deployment(
        job=in_real_time(named_job(job)),
        make_sink=lambda: contract.sink(scratch),
        files=files_of(contract.given, contract.sink(scratch)) if lines else {},
        effects_below="" if own_points else folder,
        wakes_late=job == LATE_JOB,
    )
