"""The streaming query that certifies foreachBatch functions: three batches of four rows, the same at every replay.

Row number v of the source is row (v % 2, v // 2). Both shells select from a column of such numbers: the simulated one
from a range, the real one from Spark's rate-micro-batch source, which is endless and is cut after the last row. The
simulated one has the other queries of `QUERIES`, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.schedule import STANDARD, ScheduleError
from sinkproof.chaos.wall_clock import WallClock
from sinkproof.judging.altered_rows import Fields
from sinkproof.judging.fault_allowances import REFUSABLE, still_promised
from sinkproof.judging.oracle import Anomaly, Observation, judge
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row
from sinkproof.subject.claims import Claim
from sinkproof.subject.static_analysis.names_in_code import has_name, makes_digests
from sinkproof.subject.static_analysis.numbers_in_code import chunk_sizes, factors_apart, has_number_between
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
from sinkproof.workload.jobs import EVERY_JOB, INPUTS, OUTAGE_SECONDS
from sinkproof.workload.ledger import Identity, Ledger
from sinkproof.workload.made_jobs import (
    APART,
    CHUNK_MOST,
    TIMES,
    TWELVE_TIMES,
    apart_name,
    made_job,
    twelve_chunks_name,
)
from sinkproof.workload.rows import (
    BASES,
    EDGE_CASE_INPUT,
    EQUAL_ROWS_INPUT,
    FAR_LARGER_INPUT,
    LARGE_BATCHES_INPUT,
    NULL_KEYS_INPUT,
    RECENT_INPUT,
    SHARED_KEYS_INPUT,
    TWELVE_OF_BOTH_INPUT,
    make_edge_case_row,
    make_row,
)
from sinkproof.workload.wall_clocks import DAY_BEFORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCHES: Final = 3
BATCH_ROWS: Final = 4
SPLITS: Final = 2
ROWS: Final = BATCHES * BATCH_ROWS
PARTITIONS: Final = 2
TWELVE_BATCHES: Final = 12
LARGE_BATCH_ROWS: Final = 2400
SMALL_CHUNK_MOST: Final = LARGE_BATCH_ROWS // TIMES
FAR_LARGER_BATCH_ROWS: Final = 40_000
RETRIED_TASK_JOB: Final = "retried-task"
SMALLER_CLUSTER_JOB: Final = "smaller-cluster"
NULL_KEYS_JOB: Final = "null-keys"
LINE_SEPARATORS_JOB: Final = "line-separators"
MANY_PARTITIONS_JOB: Final = "many-partitions"
LOST_BLOCKS_JOB: Final = "lost-blocks"
OTHER_ORDER_JOB: Final = "other-shuffle-order"
MAY_BE_REFUSED: Final = (*REFUSABLE_ROWS, NULL_KEYS_JOB, LOST_BLOCKS_JOB)  # by an error, as of a lost checkpoint
SHUFFLE_PARTITIONS: Final = 200
OF_PARTITIONS: Final = (
    *("monotonically_increasing_id", "spark_partition_id", "partitionId", "getNumPartitions", "glom"),
    *("foreachPartition", "mapPartitions", "mapPartitionsWithIndex", "mapInPandas", "mapInArrow"),
)
OF_CACHES: Final = ("cache", "persist", "localCheckpoint", "cacheTable")
CACHING: Final = re.compile(r"\bcache\s+(?:lazy\s+)?table\s", re.IGNORECASE)  # in SQL
OF_SHUFFLES: Final = (
    *("repartition", "repartitionByRange", "repartitionById", "groupBy", "groupby", "distinct", "Window", "agg"),
    *("dropDuplicates", "drop_duplicates", "orderBy", "rollup", "cube", "groupingSets", "pivot"),
    *("intersect", "intersectAll", "subtract", "exceptAll", "groupByKey", "reduceByKey", "sortBy", "sortByKey"),
)
SPARK_SQL: Final = re.compile(r"\.sql\(|\b(?:selectExpr|expr)\(")
SHUFFLING_SQL: Final = re.compile(
    r"\b(?:group|order|distribute)\s+by\s|\bselect\s+distinct\s|\bjoin\s+\w+\s+(?:on|using)\b|\bover\s*\(",
    re.IGNORECASE,
)
SHUFFLING: Final = re.compile(  # calls of `sort` and `join` that are none of lists, texts or paths
    r"\.sort\(\s*(?!\)|key\s*=|reverse\s*=)|(?<!path)\.join\(\s*\w+\s*,"
)
LATER_IDS: Final = {f"batch-ids-{10**width - 2}": 10**width - 2 for width in range(1, 7)}  # the third has a digit more
# Batches of one row. The last query is for batch numbers that are padded to three digits.
LONG_QUERIES: Final[Mapping[str, int]] = {f"batches-{batches}": batches for batches in (40, 150, 500, 1020)}
COUNTED_MOST: Final = 500
LEDGER: Final = Ledger(GeneratedInput(make_row, splits=SPLITS, rows_per_split=ROWS // SPLITS))

BEFORE_BATCH: Final = "micro_batch.batch.before"
BEFORE_COMMIT: Final = "micro_batch.commit.before"
AFTER_COMMIT: Final = "micro_batch.commit.after"
POINTS: Final[Mapping[str, str]] = {
    BEFORE_BATCH: "offsets/N is written, the function is about to be called",
    BEFORE_COMMIT: "the function has returned, commits/N is not written",
    AFTER_COMMIT: "commits/N was written",
}
KILL: Final = "kill-job"
LOSE: Final = "lose"
ERROR: Final = "error"  # before a call to the outside; at BEFORE_BATCH, or a line: wherever Spark reads the last row
UNANSWERED: Final = "unanswered"  # after it
FAIL: Final = "fail"  # before it, each time, until the function has returned or raised
INJECTED: Final = "injected error"
SEPARATORS: Final = {ord(each): "|" for each in "\N{LINE SEPARATOR}\x85"}
COLUMNS: Final = "split int, offset long, key string, value string, event_time_ms long"
EARLY: Final = "O3"  # the oracle
NO_CLAIM: Final = Claim(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """`sentence`: how it differs from the usual one. `batches`: how many rows each has. `outage_seconds` pass on
    `wall_clock` before a restart. `task_dies`: where an error is injected, in place of it. `cores`: of the cluster, and
    of that of a restart; 0: as many as there are. `split_by_split`: all rows of the first one come before the second's.
    `loses_blocks`: what Spark has cached is gone at each line of the function. `reorders`: in a restart the second half
    of the rows of a batch comes first, as blocks of a shuffle do that arrive sooner.
    """

    sentence: str
    ledger: Ledger = LEDGER
    batches: tuple[int, ...] = BATCHES * (BATCH_ROWS,)
    wall_clock: WallClock | None = None  # None: the machine's
    outage_seconds: float = 0.0
    task_dies: bool = False
    cores: tuple[int, int] = (0, 0)
    split_by_split: bool = False
    partitions: int = 0  # of each batch; 0: few
    loses_blocks: bool = False
    reorders: bool = False
    first_id: int = 0  # of its batches

    def identities(self, batch: int) -> list[Identity]:
        first = sum(self.batches[:batch])
        every = sorted(self.ledger.expected) if self.split_by_split else _in_turn(self.ledger)
        return every[first : first + self.batches[batch]]


@cache
def _in_turn(ledger: Ledger) -> list[Identity]:
    """A row of each split, then the next one of each."""
    splits: dict[int, list[Identity]] = {}
    for split, offset in ledger.expected:
        splits.setdefault(split, []).append((split, offset))
    return [each for turn in zip(*splits.values(), strict=True) for each in turn]


def make_row_of_one_line(split: int, offset: int) -> Row:
    """Spark's JSON leaves separators of Unicode as they are; a reader that splits lines may be wrong there."""
    row = make_edge_case_row(split, offset)
    return row._replace(value=row.value.translate(SEPARATORS))


def _of_one_row_each(batches: int) -> Query:
    ledger = Ledger(GeneratedInput(make_row, splits=SPLITS, rows_per_split=batches // SPLITS))
    return Query(sentence=f"{batches} batches, of a row each", ledger=ledger, batches=batches * (1,))


@cache
def _made_query(job: str) -> Query:
    _, source = made_job(job)
    if job.startswith(APART):
        return _in_equal_batches(source, "offsets of the two splits are a number in the code apart")
    sentence = "twelve batches, each of twelve chunks of a size that is a number in the code"
    return Query(sentence=sentence, ledger=Ledger(source), batches=TIMES * (source.batch_rows,))


def _in_equal_batches(source: GeneratedInput, sentence: str) -> Query:
    ledger = Ledger(source)
    size = -(-len(ledger.expected) // BATCHES)
    return Query(sentence=sentence, ledger=ledger, batches=(size, size, len(ledger.expected) - 2 * size))


QUERIES: Final[Mapping[str, Query]] = {
    STANDARD: Query(sentence=""),
    EMPTY_BATCHES_JOB: Query(sentence="the second and the last batch are empty", batches=(4, 0, 8, 0)),
    EDGE_CASE_VALUES_JOB: _in_equal_batches(
        GeneratedInput(make_row_of_one_line, splits=SPLITS, rows_per_split=EDGE_CASE_INPUT.rows_per_split),
        "keys and values are empty, or of 100 characters, hold quotes, commas, slashes, line ends, control characters; "
        "keys differ in one character; event times are out of order",
    ),
    LINE_SEPARATORS_JOB: _in_equal_batches(EDGE_CASE_INPUT, "the same, and values hold separators of lines of Unicode"),
    SHARED_KEYS_JOB: replace(
        _in_equal_batches(SHARED_KEYS_INPUT, "the second split has the rows of the first, later; keys of digits"),
        split_by_split=True,
    ),
    EQUAL_ROWS_JOB: _in_equal_batches(EQUAL_ROWS_INPUT, "rows differ in nothing but their offsets"),
    **{job: _in_equal_batches(INPUTS[job], EVERY_JOB[job].sentence) for job in REFUSABLE_ROWS},
    LARGE_BATCHES_JOB: _in_equal_batches(LARGE_BATCHES_INPUT, "2,400 rows in each batch"),
    MANY_CHECKPOINTS_JOB: Query(
        sentence="twelve batches and twelve splits, so that ids have one digit and two; offsets begin late",
        ledger=Ledger(TWELVE_OF_BOTH_INPUT),
        batches=TWELVE_BATCHES * (2 * TWELVE_BATCHES,),
    ),
    **{job: _of_one_row_each(batches) for job, batches in LONG_QUERIES.items()},
    **{
        job: Query(sentence=f"ids of batches begin at {first_id:,}, as in a query that goes on", first_id=first_id)
        for job, first_id in LATER_IDS.items()
    },
    FAR_LARGER_DATA_JOB: _in_equal_batches(FAR_LARGER_INPUT, "40,000 rows in each batch"),
    RETRIED_TASK_JOB: Query(sentence="a task of Spark has done its work, dies, and is run again", task_dies=True),
    SMALLER_CLUSTER_JOB: Query(
        sentence="a restart is on another host, and has two cores instead of five; batches have as many partitions",
        cores=(5, PARTITIONS),
    ),
    OUTAGE_JOB: replace(
        _in_equal_batches(RECENT_INPUT, "a day and an hour pass before each restart; event times are recent"),
        wall_clock=DAY_BEFORE,
        outage_seconds=OUTAGE_SECONDS,
    ),
    MANY_PARTITIONS_JOB: replace(
        _in_equal_batches(LARGE_BATCHES_INPUT, f"{SHUFFLE_PARTITIONS} partitions in each batch, as after a shuffle"),
        partitions=SHUFFLE_PARTITIONS,
    ),
    LOST_BLOCKS_JOB: Query(
        sentence="what Spark has cached is lost before each line, with executors", loses_blocks=True
    ),
    OTHER_ORDER_JOB: replace(
        _in_equal_batches(LARGE_BATCHES_INPUT, "rows come out of a shuffle in another order after a restart"),
        reorders=True,
    ),
    NULL_KEYS_JOB: _in_equal_batches(NULL_KEYS_INPUT, "some keys are NULL"),
}


def named_query(job: str) -> Query:
    if job.startswith((TWELVE_TIMES, APART)):
        return _made_query(job)
    if job not in QUERIES:
        raise ScheduleError(f"there is no job {job!r} of foreachBatch functions; known: {', '.join(QUERIES)}")
    return QUERIES[job]


def anomalies_of(
    ending: Observation, rows: str, *, ordered: bool = False, fields: Fields | None = None, job: str = STANDARD
) -> tuple[Anomaly, ...]:
    """Of one run of the query. `ending`: how it ended, and what a reader read then; its early rows are those of a batch
    that was not recorded. `rows`, `ordered`: as the contract claims. `fields`: that the reader shows, as a run without
    faults tells. `job`: names the batches; some of them the function may refuse by an error.
    """
    if job in (NULL_KEYS_JOB, LINE_SEPARATORS_JOB) and ending.unreadable:
        return ()  # Spark's JSON leaves out what is NULL, and leaves such separators in, at which a reader may split
    seen = replace(ending, finished=not ending.failure, kinds=[REFUSABLE] if job in MAY_BE_REFUSED else [])
    found = judge(named_query(job).ledger, seen, rows=rows, ordered=ordered, fields=fields)
    return still_promised(found, seen, claims=NO_CLAIM)


def frame_of_batch(session: SparkSession, query: Query, batch: int, *, is_restart: bool = False) -> DataFrame:
    if query.ledger is LEDGER:
        first, cores = sum(query.batches[:batch]), query.cores[is_restart]
        return rows_of(session.range(first, first + query.batches[batch], 1, cores or PARTITIONS).toDF("value"))
    rows = [tuple(query.ledger.rows[identity]) for identity in query.identities(batch)]
    half = len(rows) // 2 if query.reorders and is_restart else 0
    rows = rows[half:] + rows[:half]
    frame = session.createDataFrame(rows, COLUMNS)
    return frame.repartition(query.partitions) if query.partitions else frame


def jobs_for(files: Collection[str]) -> list[str]:
    """Those that matter to code that names partitions, what is cached, or shuffles, or has the size of a chunk: then as
    many chunks of a batch come as batches, and a name made of both numbers may be that of another chunk. Or has a
    factor by which a number is made of split and offset, or splits lines.
    """
    named = {MANY_PARTITIONS_JOB: OF_PARTITIONS, LOST_BLOCKS_JOB: OF_CACHES, OTHER_ORDER_JOB: OF_SHUFFLES}
    of_names = {job: None for job, names in named.items() if has_name(files, *names)}
    texts = [Path(file).read_text(errors="replace") for file in files]
    if any(map(CACHING.search, texts)):
        of_names[LOST_BLOCKS_JOB] = None
    if any(SHUFFLING.search(text) or (SPARK_SQL.search(text) and SHUFFLING_SQL.search(text)) for text in texts):
        of_names[OTHER_ORDER_JOB] = None
    if _splits_lines(files):
        of_names[LINE_SEPARATORS_JOB] = None
    apart = map(apart_name, factors_apart(files, known=BASES))
    return [*of_names, *apart, *_jobs_of_chunks(files, SMALL_CHUNK_MOST)]


def _splits_lines(files: Collection[str]) -> bool:
    """Elsewhere than in the reader, which may be wrong where the function is right."""
    trees = (ast.parse(Path(file).read_bytes()) for file in files)
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return any(
        getattr(node, "attr", "") == "splitlines"
        for function in functions
        if function.name != "committed"
        for node in ast.walk(function)
    )


def jobs_of_large_chunks(files: Collection[str]) -> list[str]:
    """Likewise, where chunks may be larger: these batches are, too."""
    small = _jobs_of_chunks(files, SMALL_CHUNK_MOST)
    return [job for job in _jobs_of_chunks(files, CHUNK_MOST) if job not in small]


def _jobs_of_chunks(files: Collection[str], most: int) -> list[str]:
    return [twelve_chunks_name(size) for size in chunk_sizes(files, most)]


def needs_far_larger_batches(files: Collection[str]) -> bool:
    """A number in the code may begin to matter there, or a digest of few bits."""
    return has_number_between(files, LARGE_BATCH_ROWS, FAR_LARGER_BATCH_ROWS) or makes_digests(files)


def jobs_of_larger_batches(files: Collection[str]) -> list[str]:
    return [LARGE_BATCHES_JOB, *([FAR_LARGER_DATA_JOB] if needs_far_larger_batches(files) else [])]


def endless_frame(session: SparkSession) -> DataFrame:
    """For a query that is started once per batch: the source gives one batch to each start."""
    options: dict[str, Any] = {"rowsPerBatch": BATCH_ROWS, "numPartitions": PARTITIONS, "startTimestamp": 1000}
    return rows_of(session.readStream.format("rate-micro-batch").options(**options).load())


def rows_of(numbers: DataFrame) -> DataFrame:
    """The columns of Row. Keys, values and times are literals, so that no Python runs in Spark."""
    made = [LEDGER.rows[value % SPLITS, value // SPLITS] for value in range(ROWS)]
    at = "cast(value AS int) + 1"
    return numbers.where(f"value < {ROWS}").selectExpr(
        f"cast(value % {SPLITS} AS int) AS split",
        f"cast(value div {SPLITS} AS bigint) AS offset",
        f"element_at(array({_texts([row.key for row in made])}), {at}) AS key",
        f"element_at(array({_texts([row.value for row in made])}), {at}) AS value",
        f"element_at(array({', '.join(f'{row.event_time_ms}L' for row in made)}), {at}) AS event_time_ms",
    )


def _texts(words: list[str]) -> str:
    assert all(re.fullmatch(r"[\w.]+", word) for word in words)
    return ", ".join(f"'{word}'" for word in words)
