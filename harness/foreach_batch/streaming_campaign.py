"""The stages of real Structured Streaming: which deaths of its driver are tried, after the run without faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from sinkproof.campaign.loop import Campaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Plan, Stage
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.certifying_query import BEFORE_BATCH, BEFORE_COMMIT, KILL, LOSE, POINTS
from sinkproof.foreach_batch.function_campaign import EXPERIMENTS_LEAST
from sinkproof.foreach_batch.function_results import FunctionResults, run_result
from sinkproof.foreach_batch.simulated_batches import can_be_copied
from sinkproof.foreach_batch.streaming_driver_supervisor import Experiment, StreamingRunner

EXPERIMENTS_OF_REAL_DEATHS: Final = 24  # the same, where no death is simulated: a driver takes seconds to start


class StreamingFunctionCampaign(Campaign):
    """Its schedules have one fault each, chosen after the run without faults, and a second one in recoveries."""

    results: FunctionResults

    def __init__(
        self, laboratory: StreamingRunner, results: FunctionResults, *, deadline: Deadline, budget_holds: bool
    ) -> None:
        runner: Any = laboratory  # the loop only uses its contract
        super().__init__(runner, results, should_stop=self._is_over)
        self.laboratory, self.deadline = laboratory, deadline
        self.experiments: list[Fault] = []
        self.lines_of_recoveries: dict[str, Schedule] = {}  # -> the first run that ends with a kill there
        self.done = 0
        self.budget_holds = budget_holds
        self.least = EXPERIMENTS_LEAST if can_be_copied(self.contract) else EXPERIMENTS_OF_REAL_DEATHS

    def _is_over(self, results: CampaignResults) -> bool:
        least = EXPERIMENTS_LEAST if results.breaks_a_claim else self.least
        return self.deadline.over and (self.budget_holds or self.done >= least)

    def left_out(self) -> str:
        """The first required stage that the end of the budget left without any run."""
        done = {each.name for each in self.results.coverage.stages if each.run or not self.deadline.over}
        return next((each.name for each in STREAMING_FUNCTION_PLAN if each.required and each.name not in done), "")

    def prepare(self) -> bool:
        """The run without faults."""
        results = self.results
        if left := self.laboratory.rows_left():
            results.unknowns.append(left)
            return False
        base = self.laboratory.run(())
        results.note_fields(base.ending)
        results.note_calls(Schedule(), base.trail)
        self._count(base, Schedule())
        if base.no_result or base.ending.failure:
            self.results.unknowns.append(base.no_result or f"without any fault, {base.ending.failure}")
            return False
        if base.ending.unreadable:
            results.unknowns.append(f"without any fault, the committed view cannot be read: {base.ending.unreadable}")
            results.forget()
            return False
        if left := self.laboratory.rows_left():
            results.unknowns.append(left)
            results.forget()
            return False
        self.experiments = base.experiments()
        return True

    def run_schedules(
        self, schedules: Iterable[Schedule], *, lines: bool = False, concurrent_reader: bool = False
    ) -> None:
        planned = list(schedules)
        for schedule in planned:
            self._count(self.laboratory.run(schedule.faults), schedule)
            self.stage.run += 1
            self.done += 1
            self.stop_if_asked()

    def _count(self, experiment: Experiment, schedule: Schedule) -> None:
        results, coverage = self.results, self.results.coverage
        coverage.kills += experiment.kills
        coverage.lines_known |= experiment.lines_known
        coverage.saw(experiment.passed)
        if experiment.no_result:
            results.unknowns.append(f"{schedule} came to no result: {experiment.no_result}")
            return
        self._note_lines(experiment)
        results.add(
            run_result(
                self.contract,
                schedule,
                experiment.ending,
                injected=experiment.injected,
                line=experiment.line,
                results=results,
            )
        )

    def _note_lines(self, experiment: Experiment) -> None:
        """Those that no earlier run has passed, and this one in a recovery."""
        passed: Counter[str] = Counter()
        planned = {fault.point for fault in self.experiments}
        for start, point, _ in experiment.trail:
            passed[point] += 1
            if start and is_line(point) and point not in planned:
                there = Fault(COORDINATOR, point, passed[point], KILL)
                self.lines_of_recoveries.setdefault(point, Schedule((*experiment.injected[:start], there)))

    def kills_in_recoveries(self) -> list[Schedule]:
        return list(self.lines_of_recoveries.values())


def experiments(condition: Callable[[Fault], bool]) -> Callable[[StreamingFunctionCampaign], list[Schedule]]:
    return lambda campaign: [Schedule((fault,)) for fault in campaign.experiments if condition(fault)]


STREAMING_FUNCTION_PLAN: Final[Plan] = (
    Stage(name="a lost commit", schedules=experiments(lambda fault: fault.kind == LOSE), required=True),
    Stage(
        name="a kill before the commit",
        schedules=experiments(lambda fault: fault.point == BEFORE_COMMIT),
        required=True,
    ),
    Stage(
        name="a kill at every line and file effect, the last one first",
        schedules=experiments(lambda fault: fault.point not in POINTS),
        required=True,
    ),
    Stage(
        name="a kill at every line that only recoveries execute",
        schedules=StreamingFunctionCampaign.kills_in_recoveries,
    ),
    Stage(name="a kill before the batch", schedules=experiments(lambda fault: fault.point == BEFORE_BATCH)),
)
