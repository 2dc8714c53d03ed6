"""What the wall clock shows beside services, which keep the true time."""

from __future__ import annotations

from collections.abc import Collection

from sinkproof.chaos.wall_clock import WallClock, half_an_hour_before_midnight
from sinkproof.reference_engine.shells.job import Job
from sinkproof.workload.jobs import YEAR_END


def wall_clock_beside(services: Collection[str], job: Job) -> WallClock | None:
    """What attempts of this job see, beside services of these kinds; None: the true time.

    Only local midnight comes near Kafka, which refuses what is dated hours ahead. Beside Cassandra no clock moves, as
    its clients date the rows.
    """
    if not services or job.wall_clock is None:
        return job.wall_clock
    return half_an_hour_before_midnight() if job.wall_clock is YEAR_END and {*services} == {"kafka"} else None
