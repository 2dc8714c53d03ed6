"""The jobs that certify sinks: small enough to crash everywhere, rich enough to show what a sink forgets.

Two sources, two sinks, a keyed exchange between them, three checkpoints, unequal latencies, repeated keys. In the
standard job checkpoints overlap: rows of the next one are written, or even acknowledged, before one is complete. Each
other job differs in one way, which its sentence in `EVERY_JOB` says. Checkpoints are cut by offset, in restarts too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Final

from sinkproof.chaos.schedule import STANDARD, ScheduleError
from sinkproof.reference_engine.dataflow.job_graph import source_to_sink
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.reference_engine.shells.job import Job
from sinkproof.reference_engine.shells.virtual_timing import Timing, wrong_clock
from sinkproof.workload.job_names import (
    CLOCK_SKEW_JOB,
    DAYLIGHT_SAVING_JOB,
    DOZENS_OF_CHECKPOINTS_JOB,
    EDGE_CASE_VALUES_JOB,
    EMPTY_BATCHES_JOB,
    EQUAL_ROWS_JOB,
    FAILING_READS_JOB,
    FAR_LARGER_DATA_JOB,
    FAR_TIMES_JOB,
    FIVE_TO_THREE_JOB,
    FOUR_TO_ONE_JOB,
    HUNDREDS_OF_CHECKPOINTS_JOB,
    IDLE_CLOSED_JOB,
    IMPATIENT_THREADS_JOB,
    IN_CONTAINERS_JOB,
    LARGE_BATCHES_JOB,
    LARGE_OFFSETS_JOB,
    LARGE_VALUES_JOB,
    LATE_FIRST_ROWS_JOB,
    LATE_SETTLING_JOB,
    LEAP_DAY_JOB,
    LONG_IDLE_JOB,
    LONG_KEYS_JOB,
    LONG_VALUES_JOB,
    LONG_WAITS_JOB,
    MANY_CHECKPOINTS_JOB,
    MANY_CHUNKS_JOB,
    MANY_KEYS_JOB,
    NULL_CHARACTERS_JOB,
    ONE_LARGE_CHECKPOINT_JOB,
    ORPHANS_JOB,
    OTHER_HOSTS_JOB,
    OTHER_LISTINGS_JOB,
    OUTAGE_JOB,
    PERIODIC_CHECKPOINTS_JOB,
    PIECES_JOB,
    RACING_THREADS_JOB,
    REBATCHED_JOB,
    REUSED_PROCESS_JOB,
    SCALE_IN_AND_OUT_JOB,
    SCALE_IN_JOB,
    SCALE_OUT_JOB,
    SHARED_KEYS_JOB,
    SKIPPED_IDS_JOB,
    SLOW_DETECTION_JOB,
    SLOW_THREADS_JOB,
    SPARSE_JOB,
    THREE_TO_TWO_JOB,
    TOGETHER,
    TWELVE_OF_BOTH_JOB,
    TWELVE_SINKS_JOB,
    TWO_SINKS_JOB,
    TWO_TO_FIVE_JOB,
    UNALIGNED_JOB,
    UNEVEN_SOURCES_JOB,
    UNUSED_CLOSED_JOB,
    YEAR_END_JOB,
    ZOMBIE_LATE_JOB,
    ZOMBIE_VERY_LATE_JOB,
)
from sinkproof.workload.job_plans import (
    BY_OFFSET,
    PERIODIC,
    SKIPPING_IDS,
    UNALIGNED,
    also_empty_batches,
    two_sinks,
    with_sinks,
)
from sinkproof.workload.made_jobs import MADE, made_job
from sinkproof.workload.rows import (
    DOZENS_OF_CHECKPOINTS_INPUT,
    EDGE_CASE_INPUT,
    EQUAL_ROWS_INPUT,
    FAR_LARGER_INPUT,
    FAR_TIMES_INPUT,
    HUNDREDS_OF_CHECKPOINTS_INPUT,
    IN_TURN_INPUT,
    LARGE_BATCHES_INPUT,
    LARGE_OFFSETS_INPUT,
    LARGE_VALUES_INPUT,
    LATE_FIRST_ROWS_INPUT,
    LONG_KEYS_INPUT,
    LONG_VALUES_INPUT,
    MANY_CHECKPOINTS_INPUT,
    MANY_CHUNKS_INPUT,
    MANY_KEYS_INPUT,
    NULL_CHARACTERS_INPUT,
    ONE_LARGE_INPUT,
    REBATCHED_INPUT,
    RECENT_INPUT,
    SHARED_KEYS_INPUT,
    SPARSE_INPUT,
    STANDARD_INPUT,
    TWELVE_OF_BOTH_INPUT,
    TWELVE_SINKS,
    TWELVE_SINKS_INPUT,
    UNEVEN_INPUT,
)
from sinkproof.workload.wall_clocks import CLOCKS_SET_BACK, DAY_BEFORE, DAYS_PASS, LEAP_DAY, TRUE_SECONDS, YEAR_END

ZOMBIE_LATE_MS: Final = 40  # suspended for; a new generation completes its first checkpoint within 39 of the death
LATE: Final = Timing(suspended=ZOMBIE_LATE_MS)  # zombies are
ZOMBIE_VERY_LATE_MS: Final = 110  # in the job with many checkpoints one more is complete every 8 ms
ZOMBIE_AFTER_DOZENS_MS: Final = 440
ZOMBIE_AFTER_HUNDREDS_MS: Final = 4920  # six hundred checkpoints are complete by then
SLOW_DETECTION_MS: Final = 16  # within 10 ms a checkpoint with all votes is complete, and sinks are notified
# The slowest channel takes 20 ms longer than the fastest, three times what a source needs for two batches: barriers
# overtake half of the rows.
OVERTAKEN_STRETCH: Final = 5
PERIODIC_PACE_MS: Final = 16  # six checkpoints in all
IDLE_PACE_MS: Final = 60  # the slowest checkpoint takes 20 ms from its trigger to the last notification
OUTAGE_SECONDS: Final = 25 * 3600.0  # janitors and time limits go by a quarter of an hour, an hour, a day
# settle() is called after 500 ms: the next checkpoint comes after 250, and a sink may be in doubt for 1,000.
LATE_SETTLING_STRETCH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """`sentence`: how the job differs from the standard one; printed with each finding in it."""

    sentence: str
    job: Job
    source: GeneratedInput  # all that its sources hold


def _spec(sentence: str, *, source: GeneratedInput = STANDARD_INPUT, **differences: Any) -> JobSpec:
    """A job on this input; `differences`: what the fields of the standard job are replaced by."""
    job = Job(plan=source_to_sink(source).plan(), configuration=BY_OFFSET)
    return JobSpec(sentence=sentence, job=replace(job, **differences), source=source)


EVERY_JOB: Final = {
    STANDARD: _spec("checkpoints overlap"),
    # Each checkpoint is complete and notified long before the next row. What a sink keeps *per checkpoint* shows here.
    SPARSE_JOB: _spec(
        "idle gaps between rows, and checkpoints in which a sink gets no rows",
        source=SPARSE_INPUT,
        timing=Timing(pace=IDLE_PACE_MS),
    ),
    SCALE_IN_JOB: _spec("restored with one sink subtask instead of two", later=with_sinks(1)),
    SCALE_OUT_JOB: _spec("restored with three sink subtasks instead of two", later=with_sinks(3)),
    SCALE_IN_AND_OUT_JOB: _spec(
        "restored with one sink subtask, and then with two again", later=with_sinks(1), there_and_back=True
    ),
    THREE_TO_TWO_JOB: _spec("three sink subtasks, and restored with two", plan=with_sinks(3), later=with_sinks(2)),
    TWO_TO_FIVE_JOB: _spec("restored with five sink subtasks instead of two", later=with_sinks(5)),
    FIVE_TO_THREE_JOB: _spec("five sink subtasks, and restored with three", plan=with_sinks(5), later=with_sinks(3)),
    FOUR_TO_ONE_JOB: _spec("four sink subtasks, and restored with one", plan=with_sinks(4), later=with_sinks(1)),
    ZOMBIE_LATE_JOB: _spec(
        "a suspended attempt resumes after newer attempts have completed one or two checkpoints", timing=LATE
    ),
    SLOW_DETECTION_JOB: _spec(
        "a suspended attempt is replaced only after the checkpoint that it voted for is complete",
        timing=Timing(suspended=ZOMBIE_LATE_MS, detect=SLOW_DETECTION_MS),
    ),
    # What a zombie writes for the checkpoint without rows may lie over what its successor has written for the next one.
    LATE_FIRST_ROWS_JOB: _spec(
        "the same, and a sink gets no rows before the second checkpoint",
        source=LATE_FIRST_ROWS_INPUT,
        timing=Timing(suspended=ZOMBIE_LATE_MS, detect=SLOW_DETECTION_MS),
    ),
    ZOMBIE_VERY_LATE_JOB: _spec(
        "a suspended attempt resumes after newer attempts have completed ten checkpoints",
        source=MANY_CHECKPOINTS_INPUT,
        timing=Timing(suspended=ZOMBIE_VERY_LATE_MS),
    ),
    DOZENS_OF_CHECKPOINTS_JOB: _spec(
        "sixty checkpoints; a suspended attempt resumes after fifty of them",
        source=DOZENS_OF_CHECKPOINTS_INPUT,
        timing=Timing(suspended=ZOMBIE_AFTER_DOZENS_MS),
    ),
    HUNDREDS_OF_CHECKPOINTS_JOB: _spec(
        "six hundred checkpoints; a suspended attempt resumes after them",
        source=HUNDREDS_OF_CHECKPOINTS_INPUT,
        timing=Timing(suspended=ZOMBIE_AFTER_HUNDREDS_MS),
    ),
    REBATCHED_JOB: _spec(
        "rows come in other batches, and at another pace, after a restart", again=source_to_sink(REBATCHED_INPUT).plan()
    ),
    CLOCK_SKEW_JOB: _spec(
        "the clocks of attempts differ, tick once a second, and go back with each restart",
        clock=wrong_clock,
        wall_clock=TRUE_SECONDS,
    ),
    TWO_SINKS_JOB: _spec("two sinks of one job share the target, each with the rows of one split", plan=two_sinks()),
    UNEVEN_SOURCES_JOB: _spec("one source ends long before the other", source=UNEVEN_INPUT),
    UNALIGNED_JOB: _spec(
        "checkpoints are unaligned: barriers overtake rows, which belong to the next checkpoint",
        configuration=UNALIGNED,
        timing=Timing(stretch=OVERTAKEN_STRETCH),
    ),
    PERIODIC_CHECKPOINTS_JOB: _spec(
        "checkpoints begin by a timer, with a pause between them; two failed ones in a row restart the job",
        configuration=PERIODIC,
        timing=Timing(pace=PERIODIC_PACE_MS),
    ),
    OUTAGE_JOB: _spec(
        "25 hours pass before each restart", source=RECENT_INPUT, outage_seconds=OUTAGE_SECONDS, wall_clock=DAY_BEFORE
    ),
    LATE_SETTLING_JOB: _spec(
        "settle() is called late: the next checkpoint is complete by then",
        timing=Timing(pace=IDLE_PACE_MS, settle=LATE_SETTLING_STRETCH),
    ),
    REUSED_PROCESS_JOB: _spec("the successor of a failed attempt has its process, as in a JVM", processes_reused=True),
    SHARED_KEYS_JOB: _spec("both splits have the same rows, and keys of digits", source=SHARED_KEYS_INPUT),
    EQUAL_ROWS_JOB: _spec("rows differ in nothing but their offsets", source=EQUAL_ROWS_INPUT),
    EDGE_CASE_VALUES_JOB: _spec(
        "keys and values are empty, or of 100 characters, hold quotes, commas, slashes, line ends, control characters; "
        "keys differ in one character; event times are out of order",
        source=EDGE_CASE_INPUT,
    ),
    LARGE_BATCHES_JOB: _spec("a thousand rows for each sink in each checkpoint", source=LARGE_BATCHES_INPUT),
    # A suspended attempt resumes when more rows have come than a sink remembers, which knows rows and not checkpoints.
    MANY_CHUNKS_JOB: _spec("7,200 rows for each sink in each checkpoint", source=MANY_CHUNKS_INPUT, timing=LATE),
    FAR_LARGER_DATA_JOB: _spec("20,000 rows for each sink in each checkpoint", source=FAR_LARGER_INPUT, timing=LATE),
    LARGE_VALUES_JOB: _spec(
        "values of three megabytes, four for each sink in each checkpoint",
        source=LARGE_VALUES_INPUT,
        timing=LATE,
    ),
    MANY_KEYS_JOB: _spec("400 keys for each sink in each checkpoint, each of them twice", source=MANY_KEYS_INPUT),
    LONG_KEYS_JOB: _spec("keys of a thousand characters, which differ in the last ones", source=LONG_KEYS_INPUT),
    LONG_VALUES_JOB: _spec("values of 5,000 characters, and of 140,000 bytes", source=LONG_VALUES_INPUT),
    NULL_CHARACTERS_JOB: _spec("values that hold the character of number 0", source=NULL_CHARACTERS_INPUT),
    LARGE_OFFSETS_JOB: _spec("offsets need more than 31 bits, or 15 digits", source=LARGE_OFFSETS_INPUT),
    FAR_TIMES_JOB: _spec("event times from 1901 to after 2106, 20 years apart", source=FAR_TIMES_INPUT),
    EMPTY_BATCHES_JOB: _spec("some batches are empty", plan=also_empty_batches()),
    LONG_IDLE_JOB: _spec(
        "25 hours pass between two batches", timing=Timing(pace=int(OUTAGE_SECONDS * 1000)), wall_clock=DAYS_PASS
    ),
    TWELVE_SINKS_JOB: _spec(
        "twelve sink subtasks",
        source=TWELVE_SINKS_INPUT,
        plan=source_to_sink(TWELVE_SINKS_INPUT, sinks=TWELVE_SINKS).plan(),
    ),
    TWELVE_OF_BOTH_JOB: _spec(
        "twelve sink subtasks, twelve checkpoints, and twelve splits with offsets that begin late",
        source=TWELVE_OF_BOTH_INPUT,
        plan=source_to_sink(TWELVE_OF_BOTH_INPUT, sinks=TWELVE_SINKS).plan(),
    ),
    SLOW_THREADS_JOB: _spec("threads of the sink are slower than its calls", thread_pace="slow"),
    RACING_THREADS_JOB: _spec(
        "each thread of the sink waits at its lines while another one overtakes it", thread_pace="overtaken"
    ),
    IMPATIENT_THREADS_JOB: _spec(
        "threads of the sink that wait for long, or sleep, go on after two calls", thread_pace="impatient"
    ),
    LONG_WAITS_JOB: _spec(
        "others wait for three seconds, or a limit in the code, until a suspended attempt resumes; sleep is short",
        patient=True,
        thread_pace="hurried",
    ),
    IDLE_CLOSED_JOB: _spec(
        "servers close the connections of an attempt while it is suspended", idle_connections_end="all"
    ),
    UNUSED_CLOSED_JOB: _spec("the same, but for the one that it has used last", idle_connections_end="unused"),
    IN_CONTAINERS_JOB: _spec("each attempt has process id 1", contained=True, timing=Timing(pace=IDLE_PACE_MS)),
    ORPHANS_JOB: _spec("programs that a dead attempt has started end by themselves, in a second", orphans_seconds=1.0),
    OTHER_HOSTS_JOB: _spec(
        "each attempt is on a host of its own (name, time zone, cores, local locks); restarts find no files in /tmp",
        other_hosts=True,
    ),
    YEAR_END_JOB: _spec("it is half past eleven on the evening of 31 December", wall_clock=YEAR_END),
    DAYLIGHT_SAVING_JOB: _spec("clocks are set back in half an hour", wall_clock=CLOCKS_SET_BACK),
    LEAP_DAY_JOB: _spec("it is half past eleven on the evening of 29 February", wall_clock=LEAP_DAY),
    PIECES_JOB: _spec("what is received over TCP comes in pieces of a few bytes", receives_in_pieces=True),
    OTHER_LISTINGS_JOB: _spec("folders are listed in another order, as by another file system", lists_by_hash=True),
    FAILING_READS_JOB: _spec("each read of a file or folder is a step, too, and may fail", reads_are_points=True),
    ONE_LARGE_CHECKPOINT_JOB: _spec(
        "20,000 rows of 100 characters for each sink in one checkpoint", source=ONE_LARGE_INPUT
    ),
    MANY_CHECKPOINTS_JOB: _spec("twelve checkpoints", source=MANY_CHECKPOINTS_INPUT),
    SKIPPED_IDS_JOB: _spec(  # none is pending while so many ids go by
        "twelve checkpoints, of which the last id is above a million: failed ones have used up most ids",
        source=IN_TURN_INPUT,
        configuration=SKIPPING_IDS,
        timing=Timing(pace=IDLE_PACE_MS),
    ),
}
INPUTS: Final = {name: spec.source for name, spec in EVERY_JOB.items()}


def named_job(name: str) -> Job:
    return made_job(name)[0] if name.startswith(MADE) else spec_of(name).job


def input_of(name: str) -> GeneratedInput:
    return made_job(name)[1] if name.startswith(MADE) else spec_of(name).source


def sentence_of(name: str) -> str:
    """How the job differs from the standard one; empty for that one, and for those that are none of these."""
    return spec_of(name).sentence if name != STANDARD and EVERY_JOB.keys() >= {*name.split(TOGETHER)} else ""


def spec_of(name: str) -> JobSpec:
    """Of a job, or of two joined by `+`. Raises ScheduleError."""
    first, _, second = name.partition(TOGETHER)
    for each in filter(None, (first, second)):
        if each not in EVERY_JOB:
            raise ScheduleError(f"there is no job {each!r}; known: {', '.join(EVERY_JOB)}")
    return _together(first, second) if second else EVERY_JOB[first]


@cache
def _together(first: str, second: str) -> JobSpec:
    """A job that differs from the standard one as both do. The second one has no rows, and no graph, of its own."""
    one, other = EVERY_JOB[first], EVERY_JOB[second]
    differs, taken = _differences(other.job), _differences(one.job).keys() - {"timing"}
    taken |= {"later"} if "again" in taken else set()  # after a restart a job has one graph
    if {one.job.thread_pace, other.job.thread_pace} == {"impatient", "overtaken"}:
        differs["thread_pace"], taken = "racing-timers", taken - {"thread_pace"}
    if other.source is not STANDARD_INPUT or differs.keys() & {"plan", "again", *taken}:
        raise ScheduleError(f"the jobs {first!r} and {second!r} cannot be joined in this order: both differ in one way")
    if other.job.later is not None:
        sinks = sum(subtask.sink for subtask in other.job.later.subtasks)
        differs["later"] = source_to_sink(one.source, sinks=sinks).plan()
    if "timing" in differs:
        differs["timing"] = replace(one.job.timing, **_differences(other.job.timing))
    job = replace(one.job, _latencies={}, **differs)
    return JobSpec(sentence=f"{one.sentence}; and {other.sentence}", job=job, source=one.source)


def _differences(made: Job | Timing) -> dict[str, Any]:
    """Fields that are not those of the standard job, or of its timing."""
    usual = EVERY_JOB[STANDARD].job if isinstance(made, Job) else Timing()
    pairs = {each.name: (getattr(made, each.name), getattr(usual, each.name)) for each in fields(made) if each.compare}
    return {name: value for name, (value, as_usual) in pairs.items() if value != as_usual}
