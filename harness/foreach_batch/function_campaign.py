"""The stages of a simulated query: crashes, errors, and batches that are not the usual ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sinkproof.campaign.loop import Campaign
from sinkproof.campaign.stage import Plan, Stage
from sinkproof.campaign.workers.idle_cores import times_as_long
from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.chaos.system_calls.watched_program import NotWatched
from sinkproof.execution.run_result import RunResult
from sinkproof.foreach_batch.certifying_query import (
    BATCH_ROWS,
    BATCHES,
    BEFORE_COMMIT,
    COUNTED_MOST,
    FAR_LARGER_BATCH_ROWS,
    KILL,
    LATER_IDS,
    LONG_QUERIES,
    NULL_KEYS_JOB,
    SMALLER_CLUSTER_JOB,
    TWELVE_BATCHES,
    jobs_for,
    jobs_of_large_chunks,
    named_query,
    needs_far_larger_batches,
)
from sinkproof.foreach_batch.crash_exploration import Exploration
from sinkproof.foreach_batch.deaths_in_other_batches import deaths_at_values_and_orders, deaths_in_other_batches
from sinkproof.foreach_batch.deaths_inside_calls import Watch, crash_inside_calls, look_inside
from sinkproof.foreach_batch.failing_jobs import errors, errors_elsewhere, retried_tasks
from sinkproof.foreach_batch.faults_at_targets import OpenDrivers, fail_calls, strike_calls
from sinkproof.foreach_batch.followed_schedules import follow, followed
from sinkproof.foreach_batch.function_results import FunctionResults, run_result
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery, Trail
from sinkproof.foreach_batch.streaming_driver_supervisor import Experiment
from sinkproof.foreach_batch.watched_query import NotRun
from sinkproof.reports.document import ClosureResult
from sinkproof.subject.heartbeat import heartbeat, while_it_moves
from sinkproof.subject.source_files import reachable_in
from sinkproof.subject.static_analysis.names_in_code import counts_in_bytes
from sinkproof.subject.static_analysis.numbers_in_code import has_number_between, widths_of_padded_numbers
from sinkproof.subject.static_analysis.reachable_lines import Duty
from sinkproof.workload.job_names import (
    EDGE_CASE_VALUES_JOB,
    EMPTY_BATCHES_JOB,
    EQUAL_ROWS_JOB,
    FAR_LARGER_DATA_JOB,
    LARGE_BATCHES_JOB,
    MANY_CHECKPOINTS_JOB,
    OUTAGE_JOB,
    REFUSABLE_ROWS,
    SHARED_KEYS_JOB,
)

LONG_SECONDS_MOST: Final = 60.0  # for queries of many more batches, where the machine is idle
ROUND_ABOUT: Final = 4  # a query has so many batches more than twice a number in the code
OUTAGES_LEAST: Final = 10  # whatever the budget: a line of the second batch each
EXPERIMENTS_LEAST: Final = 3  # whatever the budget: the lost commit, a kill before it, and one at the last line


class SimulatedFunctionCampaign(Campaign):
    """Its stages explore states; `deadline` ends the sequences of crashes, and `ends` all of it. Without `copies`
    nothing is crashed, as the state of what lies outside of the folder cannot be copied.
    """

    results: FunctionResults

    def __init__(
        self,
        query: SimulatedQuery,
        results: FunctionResults,
        *,
        deadline: Deadline,
        copies: bool = True,
        watch: Watch | None = None,
        drivers: OpenDrivers | None = None,
        ends: Deadline | None = None,
    ) -> None:
        runner: Any = query  # the loop only uses its contract
        super().__init__(runner, results, should_stop=lambda _: ends is not None and ends.over)
        self.query, self.deadline, self.copies, self.watch, self.drivers = query, deadline, copies, watch, drivers
        self.trails: dict[str, Trail] = {}  # by job, of runs of other batches without faults
        self.ends = ends
        self.usual = Experiment()  # the run without faults, and what it passed
        self.seconds_of_batch = 0.0
        self.exploration = Exploration(query, should_stop=lambda: deadline.over, step=self._begin_state)

    def prepare(self) -> bool:
        """The run without faults."""
        results = self.results
        if left := self.query.rows_left():
            results.unknowns.append(left)
            return False
        can_crash = self.exploration.run_without_crash()
        if left := self.query.rows_left():
            results.unknowns.append(left)
            results.forget()
            return False
        ending = self.exploration.base
        results.note_fields(ending)
        baseline = run_result(self.contract, Schedule(), ending, results=results)
        results.count_run(baseline)
        if ending.failure or not ending.committed:
            why = ending.failure or ending.unreadable or "no row was committed"
            results.unknowns.append(f"without any fault, {why}")
            return False
        results.find_all(baseline)
        if can_crash:
            began = now()
            _, _, self.usual.trail = follow(self.query, Schedule())
            self.seconds_of_batch = (now() - began) / BATCHES
            self.usual.passed = Counter(point for _, point, _ in self.usual.trail)
            results.note_calls(Schedule(), self.usual.trail)
        return can_crash

    def _begin_state(self, schedule: str) -> None:
        self.stop_if_asked()
        self.results.progress.step(schedule, 0)
        self.stage.run += 1

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self.stop_if_asked()
        with heartbeat("watching the calls of a driver", self.results.report):
            yield

    def crash_inside(self) -> None:
        """Deaths inside single calls: in the second batch, and within the budget in one that runs again."""
        if self.watch is None:
            self.stage.skipped = "no driver is watched"
            return
        with self._watching():
            found = look_inside(*(self.watch, self.exploration, self.results), deadline=self.deadline, ends=self.ends)
        if found is not None:
            crash_inside_calls(found, self.exploration, self.results)

    def fail_inside(self) -> None:
        if self.drivers is None:
            self.stage.skipped = "no driver is watched"
            return
        with self._watching():
            try:
                self.stage.run = fail_calls(self.drivers, self.query, self.results, ends=self.ends)
            except NotWatched as why:
                self.stage.skipped = str(why)
            except NotRun as why:
                self.results.unknowns.append(f"errors inside single calls were not examined: {why}")
        self.stop_if_asked()

    def strike_calls(self) -> None:
        """What cannot be copied is struck as it is, by real deaths."""
        if self.drivers is None:
            self.stage.skipped = "no driver is watched"
            return
        with self._watching():
            self.stage.run = strike_calls(
                *(self.drivers, self.query, self.results),
                elsewhere=self.deaths_in_other_batches(),
                deadline=self.ends or self.deadline,
                holds=self.ends is not None,
            )
        self.stop_if_asked()

    def crash_again(self) -> None:
        self.stop_if_asked()
        self.exploration.crash_again()
        self.results.calls |= self.exploration.places | self.results.calls
        if left := len(self.exploration.waiting) + len(self.exploration.later):
            self.stage.cut = f"{left:,} states were not run yet when the budget ended"

    def play(self, schedule: Schedule, *, lines: bool = False, concurrent_reader: bool = False) -> RunResult:
        self.stop_if_asked()
        self.results.report(str(schedule))
        with heartbeat(str(schedule), while_it_moves(lambda: self.query.reached, self.results.report)):
            result, trail = followed(self.query, schedule, results=self.results)
        self.results.note_calls(schedule, trail)
        if not schedule.faults:
            self.trails[schedule.job] = trail
        return result

    def other_batches(self) -> Iterator[Schedule]:
        """Each query without a fault, and most with a death before a commit."""
        yield from (Schedule(job=job) for job in (*REFUSABLE_ROWS, *jobs_for(self.contract.given.files)))
        # Where rows are upserted, it would be open which of the rows of a key is the last one.
        keys = (SHARED_KEYS_JOB, NULL_KEYS_JOB) if self.contract.rows == "append" else ()
        large = LARGE_BATCHES_JOB, MANY_CHECKPOINTS_JOB
        for job in (EMPTY_BATCHES_JOB, EDGE_CASE_VALUES_JOB, EQUAL_ROWS_JOB, *keys, *large):
            yield from self._of_other(job)

    def far_larger_batches(self) -> Iterator[Schedule]:
        """Where code begins to matter there; without a death where statements have not run."""
        yield from (Schedule(job=job) for job in jobs_of_large_chunks(self.contract.given.files))
        passed = self.results.coverage.lines_passed
        if needs_far_larger_batches(self.contract.given.files):
            yield from self._of_other(FAR_LARGER_DATA_JOB)
        elif any(
            each.duty is Duty.NORMAL and each.lines.isdisjoint(passed)
            for each in reachable_in(self.contract.given.own_code)
        ):
            yield Schedule(job=FAR_LARGER_DATA_JOB)

    def long_queries(self) -> Iterator[Schedule]:
        """Where a number in the code may count batches: as many come as it takes to exceed it twice, or once. Where it
        pads numbers, until they have a digit more; and batches with such ids, without those before.
        """
        files, least, fewer = self.contract.given.files, TWELVE_BATCHES + 1, TWELVE_BATCHES
        digits = [10**width for width in widths_of_padded_numbers(files)]
        yield from (Schedule(job=job) for job, first_id in LATER_IDS.items() if first_id + 2 in digits)
        for job, batches in LONG_QUERIES.items():
            is_longest = batches == COUNTED_MOST
            most = batches - 1 if is_longest else batches // 2 - ROUND_ABOUT
            counts = has_number_between(files, least, most) or (is_longest and counts_in_bytes(files))
            if (counts and batches <= COUNTED_MOST) or any(fewer <= number < batches - 1 for number in digits):
                if batches * self.seconds_of_batch > LONG_SECONDS_MOST * times_as_long():
                    self.stage.cut = f"given up, as {batches} batches take too long"
                    return
                yield Schedule(job=job)
            least, fewer = most + 1, batches

    def _of_other(self, job: str) -> Iterator[Schedule]:
        yield Schedule(job=job)
        if self.copies:
            last_but_one = max(2, len(named_query(job).batches) - 1)
            yield Schedule((Fault(COORDINATOR, BEFORE_COMMIT, last_but_one, KILL),), job=job)

    def deaths_in_other_batches(self) -> Iterator[Schedule]:
        """Where only they lead: new lines, and further turns of loops if a number in the code may be a chunk's size."""
        chunks = has_number_between(self.contract.given.files, BATCH_ROWS, FAR_LARGER_BATCH_ROWS)
        struck = set[str]()
        others = [(job, trail) for job, trail in self.trails.items() if not named_query(job).reorders]
        for job, trail in sorted(others, key=lambda item: item[0] in LONG_QUERIES):
            known, is_long = frozenset(struck), job in LONG_QUERIES
            for fault in deaths_in_other_batches(self.usual.trail, trail, chunks=chunks and not is_long, late=is_long):
                if is_long and self.deadline.over:
                    self.stage.cut = "the budget ended before every line that only many batches execute was struck"
                    return
                if not (is_long and fault.point in known):
                    struck.add(fault.point)
                    yield Schedule((fault,), job=job)
        yield from deaths_at_values_and_orders(self.trails)

    def outages(self) -> Iterator[Schedule]:
        self.results.notes.append(
            "the clock of Spark's JVM shows the true time; where the code names it (current_date, current_timestamp), "
            "its time zone is moved by a day, and columns of which only a part is taken by 31 days and 70 minutes"
        )
        for number, fault in enumerate(self.usual.experiments_and_last_times()):
            if number >= OUTAGES_LEAST and self.deadline.over:
                self.stage.cut = "the budget ended before every place of the second batch was tried"
                return
            yield Schedule((fault,), job=OUTAGE_JOB)

    def smaller_clusters(self) -> Iterator[Schedule]:
        yield Schedule(job=SMALLER_CLUSTER_JOB)
        experiments = list(self.usual.experiments())
        yield from (Schedule((fault,), job=SMALLER_CLUSTER_JOB) for fault in experiments[:EXPERIMENTS_LEAST])

    def left_out(self) -> str:
        return self.results.coverage.stage_left_out() if self.should_stop(self.results) else ""

    def closure(self) -> ClosureResult:
        """Counts all states. After the stages, because a state may have been reached again after its run."""
        results, exploration = self.results, self.exploration
        results.coverage.lines_known |= self.query.tracer.known()
        for explored in exploration.states.values():
            results.coverage.saw(fault.point for fault in explored.crashes)
            if explored.ending is not None:
                first = explored.first
                result = run_result(
                    *(self.contract, Schedule(first.faults), explored.ending), line=first.line, results=results
                )
                results.count_run(result)
                others = [fault for fault in explored.crashes if fault is not first.faults[-1]]
                results.crashed(first.faults[-1], violated=results.find_all(result), covered=others)
        why = "the budget ended before every sequence of crashes was tried"
        if exploration.bad_states:
            why = "what is wrong already is not crashed again"
        complete = exploration.complete
        states = sum(explored.ending is not None for explored in exploration.states.values())
        return ClosureResult(states=states, complete=complete, why="" if complete else why)


def until_the_budget_ends(
    schedules: Callable[[SimulatedFunctionCampaign], Iterator[Schedule]],
) -> Callable[[SimulatedFunctionCampaign], None]:
    """Each is asked for when the one before has run: they come as long as there is time."""

    def explore(campaign: SimulatedFunctionCampaign) -> None:
        for schedule in schedules(campaign):
            campaign.run_schedules([schedule])

    return explore


ERRORS_AND_OTHER_BATCHES: Final[Plan] = (
    Stage(name="errors, after which the same driver starts the query again", schedules=errors),
    Stage(name="tasks of Spark that die after their work, and are run again", schedules=retried_tasks),
    Stage(
        name="empty batches, unusual values, large batches, many batches",
        schedules=SimulatedFunctionCampaign.other_batches,
    ),
)
FAR_LARGER_BATCHES: Final = Stage(name="far larger batches", schedules=SimulatedFunctionCampaign.far_larger_batches)
MANY_MORE_BATCHES: Final = Stage(name="many more batches", schedules=SimulatedFunctionCampaign.long_queries)
SMALLER_CLUSTERS: Final = Stage(
    name="a smaller cluster after a restart", schedules=SimulatedFunctionCampaign.smaller_clusters
)
ERRORS_ELSEWHERE: Final = Stage(
    name="errors of calls that only other batches make, or recoveries",
    schedules=errors_elsewhere,
)
SIMULATED_FUNCTION_PLAN: Final[Plan] = (
    Stage(name="a crash at every point and line of every batch", explore=lambda each: each.exploration.crash_once()),
    *ERRORS_AND_OTHER_BATCHES,
    FAR_LARGER_BATCHES,
    MANY_MORE_BATCHES,
    Stage(
        name="deaths where only such batches lead",
        explore=until_the_budget_ends(SimulatedFunctionCampaign.deaths_in_other_batches),
    ),
    Stage(name="a death inside one call", explore=SimulatedFunctionCampaign.crash_inside),
    Stage(name="an error inside one call", explore=SimulatedFunctionCampaign.fail_inside),
    Stage(
        name="a day and an hour between a crash and the restart",
        explore=until_the_budget_ends(SimulatedFunctionCampaign.outages),
    ),
    SMALLER_CLUSTERS,
    Stage(name="crashes in the recoveries from these", explore=SimulatedFunctionCampaign.crash_again),
    ERRORS_ELSEWHERE,
)
WITHOUT_COPIES: Final[Plan] = (
    *ERRORS_AND_OTHER_BATCHES,
    MANY_MORE_BATCHES,
    Stage(name="a death or an error inside one call", explore=SimulatedFunctionCampaign.strike_calls),
    FAR_LARGER_BATCHES,  # after deaths, as recoveries run statements of their own
    ERRORS_ELSEWHERE,
)
