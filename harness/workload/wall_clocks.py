"""What wall clocks show in jobs; beside services, which keep the true time, less."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from sinkproof.chaos.wall_clock import WallClock, half_an_hour_before_midnight
from sinkproof.reference_engine.shells.job import Job

# Half an hour before the end of a year, twelve hours before it, half an hour before clocks are set back; the evening of
# 29 February.
YEAR_END: Final = WallClock(start=1_704_065_400.0, zone="UTC0")  # where local midnight is near, too
DAY_BEFORE: Final = WallClock(start=1_704_024_000.0)
DAYS_PASS: Final = replace(DAY_BEFORE, passes=True)
CLOCKS_SET_BACK: Final = WallClock(start=1_698_539_400.0, zone="CET-1CEST,M3.5.0,M10.5.0/3")
LEAP_DAY: Final = WallClock(start=1_709_249_400.0, zone="UTC0")
TRUE_SECONDS: Final = WallClock(start=0.0)  # where `context.clock` shows seconds since 1970


def wall_clock_beside(services: Collection[str], job: Job) -> WallClock | None:
    """What attempts of this job see, beside services of these kinds; None: the true time.

    Only local midnight comes near Kafka, which refuses what is dated hours ahead. Beside Cassandra no clock moves, as
    its clients date the rows.
    """
    if not services or job.wall_clock is None:
        return job.wall_clock
    return half_an_hour_before_midnight() if job.wall_clock is YEAR_END and {*services} == {"kafka"} else None
