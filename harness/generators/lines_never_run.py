"""Schedules that may lead to lines which no run has executed, and the faults that are tried where one has.

What a sink does seldom depends on how much it holds, on how long nothing came, on checkpoints that fail one after
the other, and on how many subtasks there are. None of it is in the standard job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from sinkproof.chaos.clock import now
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.faults.unanswered_call import CALLS
from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.campaign_view import CampaignView
from sinkproof.generators.combinations import crash_loops
from sinkproof.generators.deaths_beside_programs import START_PROGRAMS
from sinkproof.generators.fault_sites import DECIDED, EACH, passes, spread
from sinkproof.generators.rare import all_notifications_but_the_last
from sinkproof.subject.static_analysis.names_in_code import (
    counts_in_bytes,
    has_name,
    keeps_what_grows_elsewhere,
    makes_digests,
)
from sinkproof.subject.static_analysis.numbers_in_code import (
    has_number_between,
)
from sinkproof.subject.user_code import imports_packages, own_native_modules
from sinkproof.workload.job_names import (
    DOZENS_OF_CHECKPOINTS_JOB,
    EMPTY_BATCHES_JOB,
    FAR_LARGER_DATA_JOB,
    HUNDREDS_OF_CHECKPOINTS_JOB,
    LARGE_BATCHES_JOB,
    LARGE_VALUES_JOB,
    LONG_IDLE_JOB,
    MANY_CHECKPOINTS_JOB,
    MANY_CHUNKS_JOB,
    MANY_KEYS_JOB,
    ONE_LARGE_CHECKPOINT_JOB,
    TWELVE_SINKS_JOB,
)
from sinkproof.workload.job_plans import FAILURES_TOLERATED
from sinkproof.workload.rows import (
    BATCHES_PER_CHECKPOINT,
    DOZENS_OF_CHECKPOINTS,
    FAR_LARGER_BATCH_ROWS,
    HUNDREDS_OF_CHECKPOINTS,
    LARGE_BATCH_ROWS,
    MANY_CHECKPOINTS,
)

Schedules = Callable[[], Iterator[Schedule]]
LATE_DEATHS: Final = 5
FOREIGN_LIBRARIES: Final = (
    "CDLL",
    "PyDLL",
    "cdll",
    "pydll",
    "LoadLibrary",
    "dlopen",
    "FFI",
)  # code that is neither Python nor a module
DOZENS_SECONDS_MOST: Final = 8.0  # ten times as many checkpoints take ten times as long
NOTIFIED: Final = "notify_complete.before"
DEATHS: Final = {"kill-job": (DECIDED, NOTIFIED)}
OTHERS: Final = {"stop": (NOTIFIED, "write.after"), "error": CALLS, "unanswered": CALLS}


def unusual_situations(campaign: CampaignView) -> Iterator[Schedule]:
    """Short ones first. A batch has a single row in `many-checkpoints`, 10,000 rows in `far-larger-data`."""
    yield Schedule(job=EMPTY_BATCHES_JOB)
    yield Schedule(job=MANY_CHECKPOINTS_JOB)
    many = campaign.run_traced(Schedule(job=MANY_CHECKPOINTS_JOB))
    yield Schedule(tuple(all_notifications_but_the_last(many)), job=MANY_CHECKPOINTS_JOB)
    declined = [fault for fault in spread(many, "decline", times=EACH) if fault.actor == "sink[0]"]
    yield Schedule(tuple(declined[: FAILURES_TOLERATED - 1]), job=MANY_CHECKPOINTS_JOB)
    yield from crash_loops(campaign)
    if campaign.contract.expires_after is None:  # else each transaction would have expired
        yield Schedule(job=LONG_IDLE_JOB)
    yield Schedule(job=MANY_KEYS_JOB)
    yield Schedule(job=TWELVE_SINKS_JOB)
    yield Schedule(job=HUNDREDS_OF_CHECKPOINTS_JOB)
    yield Schedule(job=FAR_LARGER_DATA_JOB)


def many_chunks() -> Iterator[Schedule]:
    """A chunk with a number of two digits comes before one with a single digit, if they are sorted as text."""
    yield Schedule(job=MANY_CHUNKS_JOB)
    yield _zombie(NOTIFIED, job=MANY_CHUNKS_JOB)


def far_larger_data() -> Iterator[Schedule]:
    """Without a fault, and with a death of the job: what it replays is more than the sink gets in other jobs."""
    yield Schedule(job=FAR_LARGER_DATA_JOB)
    yield Schedule((Fault(COORDINATOR, DECIDED, 2, "kill-job"),), job=FAR_LARGER_DATA_JOB)
    yield _zombie(NOTIFIED, job=FAR_LARGER_DATA_JOB)


def one_large_checkpoint() -> Iterator[Schedule]:
    """Whatever the code says: PostgreSQL takes 65,535 parameters, a script in Redis 8,000."""
    yield Schedule(job=ONE_LARGE_CHECKPOINT_JOB)


def large_values() -> Iterator[Schedule]:
    yield Schedule(job=LARGE_VALUES_JOB)
    yield Schedule((Fault(COORDINATOR, DECIDED, 2, "kill-job"),), job=LARGE_VALUES_JOB)
    yield _zombie(NOTIFIED, job=LARGE_VALUES_JOB)


def hundreds_of_checkpoints() -> Iterator[Schedule]:
    """What a sink remembers of the last so many checkpoints does not refuse a zombie from before."""
    yield from (_zombie(point, job=HUNDREDS_OF_CHECKPOINTS_JOB) for point in (NOTIFIED, "write.before"))


def late_death() -> Iterator[Schedule]:
    """What a restored sink asks for is thousands of bytes by then, or stands in a list with more than a hundred parts,
    or a thousand, whatever the code says: services give pages. And they forget: what they know of the last so many
    requests does not refuse a zombie from before. Not a thousand where a hundred take long.
    """
    return islice(late_deaths(), 3)


def late_deaths() -> Iterator[Schedule]:
    """A page that has no order may hold the one part that was not committed."""
    began = now()
    yield _late_death(DOZENS_OF_CHECKPOINTS, job=DOZENS_OF_CHECKPOINTS_JOB)
    if now() - began < DOZENS_SECONDS_MOST:
        last = HUNDREDS_OF_CHECKPOINTS
        yield _late_death(last, job=HUNDREDS_OF_CHECKPOINTS_JOB)
        yield _zombie(NOTIFIED, job=HUNDREDS_OF_CHECKPOINTS_JOB)
        yield from (_late_death(last - number, job=HUNDREDS_OF_CHECKPOINTS_JOB) for number in range(1, LATE_DEATHS))


def _late_death(checkpoint: int, *, job: str) -> Schedule:
    return Schedule((Fault(COORDINATOR, DECIDED, checkpoint, "kill-job"),), job=job)


def _zombie(point: str, *, job: str) -> Schedule:
    return Schedule((Fault("sink[0]", point, 1, "stop"),), job=job)


def faults_next(run: RunResult, *, deaths_only: bool) -> Iterator[Schedule]:
    """After the faults that led there, at the first, the middle and the last pass of each step: deaths of the whole job
    around decisions, then zombies, then calls to the target that fail. `deaths_only`: a run takes seconds.
    """
    for kind, points in (DEATHS if deaths_only else {**DEATHS, **OTHERS}).items():
        for point in points:
            sites = [fault for fault in _after_its_faults(run, kind) if fault.point == point]
            few = dict.fromkeys(sites[len(sites) * part // 2 - (part == 2)] for part in range(3) if sites)
            yield from (replace(run.schedule, faults=(*run.schedule.faults, fault)) for fault in few)


def _after_its_faults(run: RunResult, kind: str) -> Iterator[Fault]:
    injected = {(fault.actor, fault.point, fault.occurrence) for fault in run.schedule.faults}
    for actor, point, occurrence in passes(run):
        injected.discard((actor, point, occurrence))
        if not injected and KINDS[kind].applies(actor, point):
            yield Fault(actor, point, occurrence, kind)


# Chunks of up to 100 rows: `large-batches` has twelve; of up to 600: `many-chunks`; then as many as a sink gets in all.
# Windows of up to ten checkpoints: `zombie-very-late`, where the zombie goes on when twelve more are complete.
BUCKETS_MOST: Final = 1 << 24  # among so many buckets, hundreds get two of the 120,000 rows of far larger data
LARGE_ROWS: Final = BATCHES_PER_CHECKPOINT * FAR_LARGER_BATCH_ROWS  # of a part, in one large checkpoint
BYTES: Final = 1 << 16, 1 << 23  # buffers and pieces of these sizes are reached by large values; larger ones are not
MORE_DATA: Final = (  # numbers in the code, the least and the most, from which on it may matter
    ((MANY_CHECKPOINTS - 1, HUNDREDS_OF_CHECKPOINTS), hundreds_of_checkpoints),
    ((LARGE_BATCH_ROWS // 6 + 1, LARGE_BATCH_ROWS), many_chunks),
    (BYTES, large_values),
    ((LARGE_BATCH_ROWS + 1, BUCKETS_MOST), far_larger_data),
)
FOR_ALL: Final = [late_death, one_large_checkpoint]
EVERY_MORE_DATA: Final = [*(schedules for _, schedules in MORE_DATA), *FOR_ALL]  # of unknown code
FOR_HUNDREDS, FOR_DIGESTS = MORE_DATA[0], MORE_DATA[-1]
NEW_CALLS_IN: Final = {MORE_DATA[0][0]: HUNDREDS_OF_CHECKPOINTS_JOB, BYTES: LARGE_VALUES_JOB}


def more_data(files: Collection[str]) -> list[Schedules]:
    """Schedules of jobs with as much of something as may begin to matter in this code, or in any. No files: the code
    is a command's, and unknown.
    """
    if not files:
        return EVERY_MORE_DATA
    matters = [FOR_DIGESTS] if makes_digests(files) else []
    grows = keeps_what_grows_elsewhere(files)
    matters += [FOR_HUNDREDS] if counts_in_bytes(files) or grows else []
    found = [each for each in MORE_DATA if each in matters or has_number_between(files, *each[0])]
    of_numbers = [schedules for _, schedules in found]
    return [*of_numbers, late_deaths if grows else late_death, one_large_checkpoint]


def jobs_of_large_writes(files: Collection[str], *, uses_server: bool) -> list[str]:
    """Where all rows come in one checkpoint, code may write what is large otherwise: a log of unknown code its next
    segment, a library a file of its own, a client several requests; or a number in the code says from where on.
    """
    is_known = files and not has_name(files, *FOREIGN_LIBRARIES, *START_PROGRAMS)
    paths = [Path(file) for file in files]
    is_plain = is_known and not own_native_modules(paths) and not imports_packages(paths)
    is_small = is_plain and not uses_server and not has_number_between(files, LARGE_BATCH_ROWS + 1, LARGE_ROWS)
    return [LARGE_BATCHES_JOB] if is_small else [LARGE_BATCHES_JOB, ONE_LARGE_CHECKPOINT_JOB]


def jobs_with_new_calls(files: Collection[str]) -> list[str]:
    """What is old is removed there, or put together; what is large is written in pieces. No files: as for more data."""
    return [job for numbers, job in NEW_CALLS_IN.items() if not files or has_number_between(files, *numbers)]
