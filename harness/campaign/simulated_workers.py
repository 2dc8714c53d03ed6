"""Second laboratories of a campaign in the simulated shell: where tens of thousands of schedules are to be run.

They take no more of a processor than nobody else wants, and they are started when there is enough to be done: what
they import takes a second.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from sinkproof.campaign.worker_pool import Lane, Lanes, say_ready, serve, start_lane, telling
from sinkproof.chaos.lines import LineTracer
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import Laboratory, Trial
from sinkproof.exploration.run_memo import Endings
from sinkproof.subject.contract import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.services_in_use import USED
from sinkproof.subject.source_files import files_of

ENTRY: Final = "sinkproof.campaign.simulated_workers:live"
WORTH: Final = 500  # schedules: a second with named points, five with lines
BATCH_MOST: Final = 25
NICE: Final = 5
HANGS_MOST: Final = 2  # times a call's limit, in which a batch is done; the first laboratory may be silent for three


class LanesBeside:
    """Those of one laboratory. `start`: makes them, once they are needed; none, where one core is all there is."""

    def __init__(self, *, start: Callable[[], Sequence[Lane]] = lambda: ()) -> None:
        self.start, self.lanes = start, list[Lane]()

    def trials(
        self, schedules: Sequence[Schedule], *, traced: bool, run: Callable[[Schedule], Trial]
    ) -> Iterator[Trial]:
        """See lanes.Trials. Without lines, they are told briefly. What they show is not confirmed yet."""
        if len(schedules) >= WORTH and not self.lanes:
            self.lanes += self.start()
        return Lanes(self.lanes, batch_most=BATCH_MOST).trials(schedules, traced=traced, run=run)

    def remark(self) -> str:
        """Why one of them runs every schedule to its end; empty if none does."""
        return next((lane.remark for lane in self.lanes if lane.remark), "")


ALONE: Final = LanesBeside()


@contextmanager
def lanes_beside(laboratory: Laboratory, cores: int, *, hang_seconds: float) -> Iterator[LanesBeside]:
    """One on each core but this one. Who needs a service or cannot be copied is alone."""
    scratch, locator = laboratory.scratch, laboratory.contract.locator
    with ExitStack() as stack:

        def start() -> list[Lane]:
            count = cores - 1 if laboratory.contract.copies and not USED else 0
            if not count:
                return []
            server = stack.enter_context(ForkServer(preload=("sinkproof.campaign.simulated_workers",)))
            names = [f"{scratch.name}-{number}" for number in range(2, count + 2)]
            patience = HANGS_MOST * hang_seconds
            return [start_lane(server, stack, ENTRY, locator, name, seconds=patience, ready=False) for name in names]

        yield LanesBeside(start=start)


def live(inside: Inside, locator: str, name: str) -> None:
    """The entry of a lane."""
    os.nice(NICE)
    folder = fresh_folder()
    try:
        with telling(inside), Laboratory(load(locator), Scratch(name=name, path=folder)) as laboratory:
            endings = Endings(laboratory, confirms=False)
            at_lines = Endings(laboratory, confirms=False, tracing=tracer_of(laboratory))

            def run(schedule: Schedule, traced: bool) -> Trial:
                return at_lines.run(schedule) if traced else briefly(endings.run(schedule))

            say_ready(inside)
            serve(inside, run, remark=lambda: endings.why_not)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tracer_of(laboratory: Laboratory) -> LineTracer:
    """Of the lines of the sink's own code, which the laboratory can name from then on."""
    given = laboratory.contract.given
    tracer = LineTracer(files_of(given, laboratory.contract.sink(laboratory.scratch)))
    laboratory.files = tracer.files
    return tracer


def briefly(trial: Trial) -> Trial:
    """One of tens of thousands: what it has passed was passed by others, and how it went is shown of a few."""
    return replace(trial, trace=[], history=[]) if trial.fired else trial
