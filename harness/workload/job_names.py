"""The names of the jobs, as schedules have them, and which of them belong together. What they are is in jobs.py."""

from __future__ import annotations

from typing import Final

from sinkproof.chaos.schedule import STANDARD

SPARSE_JOB: Final = "sparse"
ZOMBIE_LATE_JOB: Final = "zombie-late"
SLOW_DETECTION_JOB: Final = "slow-detection"
LATE_FIRST_ROWS_JOB: Final = "late-first-rows"
ZOMBIE_VERY_LATE_JOB: Final = "zombie-very-late"
DOZENS_OF_CHECKPOINTS_JOB: Final = "dozens-of-checkpoints"
HUNDREDS_OF_CHECKPOINTS_JOB: Final = "hundreds-of-checkpoints"
SCALE_IN_JOB: Final = "scale-in"
SCALE_OUT_JOB: Final = "scale-out"
SCALE_IN_AND_OUT_JOB: Final = "scale-in-and-out"
THREE_TO_TWO_JOB: Final = "three-to-two"
TWO_TO_FIVE_JOB: Final = "two-to-five"
FIVE_TO_THREE_JOB: Final = "five-to-three"
FOUR_TO_ONE_JOB: Final = "four-to-one"
REBATCHED_JOB: Final = "rebatched"
CLOCK_SKEW_JOB: Final = "clock-skew"
TWO_SINKS_JOB: Final = "two-sinks"
UNEVEN_SOURCES_JOB: Final = "uneven-sources"
UNALIGNED_JOB: Final = "unaligned"
PERIODIC_CHECKPOINTS_JOB: Final = "periodic-checkpoints"
OUTAGE_JOB: Final = "outage"
LATE_SETTLING_JOB: Final = "late-settling"
REUSED_PROCESS_JOB: Final = "reused-process"
EDGE_CASE_VALUES_JOB: Final = "edge-case-values"
EQUAL_ROWS_JOB: Final = "equal-rows"
SHARED_KEYS_JOB: Final = "shared-keys"
LARGE_BATCHES_JOB: Final = "large-batches"
LARGE_VALUES_JOB: Final = "large-values"
MANY_CHECKPOINTS_JOB: Final = "many-checkpoints"
SKIPPED_IDS_JOB: Final = "skipped-ids"
MANY_CHUNKS_JOB: Final = "many-chunks"
FAR_LARGER_DATA_JOB: Final = "far-larger-data"
ONE_LARGE_CHECKPOINT_JOB: Final = "one-large-checkpoint"
MANY_KEYS_JOB: Final = "many-keys"
LONG_KEYS_JOB: Final = "long-keys"
LONG_VALUES_JOB: Final = "long-values"
NULL_CHARACTERS_JOB: Final = "null-characters"
LARGE_OFFSETS_JOB: Final = "large-offsets"
FAR_TIMES_JOB: Final = "far-times"
EMPTY_BATCHES_JOB: Final = "empty-batches"
LONG_IDLE_JOB: Final = "long-idle"
TWELVE_SINKS_JOB: Final = "twelve-sinks"
TWELVE_OF_BOTH_JOB: Final = "twelve-of-both"
SLOW_THREADS_JOB: Final = "slow-threads"
RACING_THREADS_JOB: Final = "racing-threads"
IMPATIENT_THREADS_JOB: Final = "impatient-threads"
LONG_WAITS_JOB: Final = "long-waits"
IDLE_CLOSED_JOB: Final = "idle-closed"
UNUSED_CLOSED_JOB: Final = "unused-closed"
IN_CONTAINERS_JOB: Final = "in-containers"
OTHER_HOSTS_JOB: Final = "other-hosts"
ORPHANS_JOB: Final = "orphans"
YEAR_END_JOB: Final = "year-end"
DAYLIGHT_SAVING_JOB: Final = "daylight-saving"
LEAP_DAY_JOB: Final = "leap-day"
FAILING_READS_JOB: Final = "failing-reads"
OTHER_LISTINGS_JOB: Final = "other-listings"
PIECES_JOB: Final = "pieces"
TOGETHER: Final = "+"  # joins the names of two jobs
JOBS: Final = (STANDARD, SPARSE_JOB)
RESCALED_JOBS: Final = (SCALE_IN_JOB, SCALE_OUT_JOB)
UNEVENLY_RESCALED_JOBS: Final = (THREE_TO_TWO_JOB, TWO_TO_FIVE_JOB, FIVE_TO_THREE_JOB, FOUR_TO_ONE_JOB)
VIRTUAL_JOBS: Final = (  # run by a simulated engine only
    *(REBATCHED_JOB, CLOCK_SKEW_JOB, TWO_SINKS_JOB, UNEVEN_SOURCES_JOB, UNALIGNED_JOB),
    *(PERIODIC_CHECKPOINTS_JOB, OUTAGE_JOB, LATE_SETTLING_JOB, REUSED_PROCESS_JOB),
)
REFUSABLE_ROWS: Final = (LONG_KEYS_JOB, LONG_VALUES_JOB, NULL_CHARACTERS_JOB, LARGE_OFFSETS_JOB, FAR_TIMES_JOB)
REFUSABLE_JOBS: Final = (*REFUSABLE_ROWS, ONE_LARGE_CHECKPOINT_JOB, LARGE_VALUES_JOB)  # a target may do so, by an error
PLAIN_JOBS: Final = (EDGE_CASE_VALUES_JOB, EQUAL_ROWS_JOB, LARGE_BATCHES_JOB, MANY_CHECKPOINTS_JOB)
THREADS_JOBS: Final = (SLOW_THREADS_JOB, RACING_THREADS_JOB, IMPATIENT_THREADS_JOB)  # where sinks are processes
WALL_CLOCK_JOBS: Final = (YEAR_END_JOB, DAYLIGHT_SAVING_JOB, LEAP_DAY_JOB)  # where sinks are processes
RARE_JOBS: Final = (  # where sinks are processes, and mostly while statements of theirs have not run
    *(EMPTY_BATCHES_JOB, MANY_KEYS_JOB, LONG_IDLE_JOB, TWELVE_SINKS_JOB, TWELVE_OF_BOTH_JOB, MANY_CHUNKS_JOB),
    *(FAR_LARGER_DATA_JOB, SHARED_KEYS_JOB, SKIPPED_IDS_JOB),
    *(*REFUSABLE_JOBS, *UNEVENLY_RESCALED_JOBS),
)
