"""A stage of a campaign: schedules and their conditions. A plan is a tuple of stages, read like a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any, Final

from sinkproof.chaos.schedule import Schedule

WALL_CLOCK_STAGE: Final = "wall clock passes the end of a year and of daylight saving time"  # what ran is asked for it


class Need(Enum):
    """A condition of a stage. Its value is what the certificate says where the condition does not hold."""

    NO_SERVICE = "an external system is in use: each of these runs would take seconds"
    SERVICE = "no external system of this certification's own is in use"
    USES_SERVICE = "no external system is in use"
    RESCALES = "rescales = False: no checkpoint is restored with another parallelism"
    COPIES = "without freeze and thaw the simulated shell cannot copy the target"
    NO_COPIES = "the simulated shell does this on copies of the target"
    FOREIGN_CODE = "the sink is one of sinkproof's own adapters; their modules keep nothing between attempts"
    NO_NAMED_POINTS = "the sink names its points itself"
    WALL_CLOCK = "the wall clock is not moved: services keep the true time, and so do programs"
    CONCURRENT_READER = "no claim of this sink needs a concurrent reader"
    CRASHABLE_HERE = "the simulated shell leaves deaths of this sink to the process shell"
    POWER_LOSS = "the contract does not offer lose_power"
    ENDURANCE = "rows are not appended"
    OUTWARD_CALLS = "no system calls of this sink are watched"
    NATIVE_CALLS = "each outward call is explained by a line, or by a step"
    PYTHON = "a command is struck at all its outward calls"
    WATCHED_POWER = "SURVIVES_POWER_LOSS is not claimed, or the contract offers lose_power"
    HANDLES_SIGTERM = "the sink does not handle SIGTERM, so that it would die as by a kill"
    HOSTS = "the job runs on one host: --master cluster:3 starts three, which can be killed and cut off"
    INSIDE_SERVICE = "without --inside-service no external system is killed between two of its own writes"


def nothing(_: Any) -> Iterable[Schedule]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Either `schedules`, a generator of harness/generators, or `explore`, for closures and other searches.
    Both are given the campaign. `lines`: executed lines are traced while these schedules run. `required`: when a
    user's sink is certified, the campaign does not end before this stage, however short the budget; beside an external
    system only before those of these stages that need one. `seconds_most`: of its schedules so many run, evenly, as fit
    into that time; inf: all of them, unless runs are so slow that the required stages would not end. `whole`: all of
    them, however slow runs are.
    """

    name: str  # printed with its coverage
    schedules: Callable[[Any], Iterable[Schedule]] = nothing
    explore: Callable[[Any], None] | None = None
    needs: tuple[Need, ...] = ()
    lines: bool = False
    concurrent_reader: bool = False
    required: bool = False
    whole: bool = False
    seconds_most: float = inf


Plan = Sequence[Stage]


@dataclass(slots=True, kw_only=True)
class StageCoverage:
    """How far a stage came. `skipped`: which condition did not hold. `cut`: why it has left out a part of its bound."""

    name: str
    run: int = 0  # schedules; of a stage that explores, whole runs
    planned: int = 0  # known before the first of its schedules ran; 0: the stage finds its schedules while it runs
    finished: bool = False
    skipped: str = ""
    cut: str = ""


def table_of(plan: Plan) -> list[tuple[str, str, str]]:
    """For `--plan`: (name, what is traced, conditions) of each stage."""
    rows = []
    for stage in plan:
        how = [word for word, holds in (("lines", stage.lines), ("reader", stage.concurrent_reader)) if holds]
        conditions = ", ".join(need.name.lower().replace("_", " ") for need in stage.needs)
        rows.append((stage.name, "+".join(how), conditions))
    return rows
