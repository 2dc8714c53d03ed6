"""What Spark itself sees of the day and of its cluster. Its JVM keeps the true time, but says in which zone it is asked
for; and it says how many cores there are, although there are two.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING: Final = "spark.sql.session.timeZone"
ZONES: Final = {False: "-11:00", True: "+13:00"}  # a day apart, at each moment
CORES: Final = "spark.default.parallelism"  # what a session says, unless it is told how many there are
OTHER_HOST: Final = "another-host"  # of a restart
SHUFFLED: Final = "spark.sql.shuffle.partitions"
SETS_A_ZONE: Final = re.compile(r"\s*set\s+(?:time\s+zone|spark\.sql\.session\.timezone)\b", re.IGNORECASE)
ASKED: Final = re.compile(
    r"\b(?:current_date|current_timestamp|curdate|localtimestamp|unix_timestamp)\b|(?<!date\.)(?<!datetime\.)\bnow\("
)
NOW: Final = r"(?:\w+\.)?\b(?:current_date|current_timestamp|curdate|localtimestamp|now|unix_timestamp(?=\(\s*\)))\("
READS_NOW: Final = re.compile(NOW)
PART: Final = r"\b(?:date_format|year|quarter|month|weekofyear|hour|minute|trunc|date_trunc)\(\s*(?:['\"]\w+['\"],\s*)?"
TAKES_A_PART: Final = re.compile(PART + NOW + r"|unix_timestamp\(\s*\)\s*[/%]")
NAMES_NOW: Final = re.compile(r"\bwithColumn\(\s*['\"](\w+)['\"],\s*" + NOW + r"\s*\)\s*\)")
A_MONTH: Final = "interval 31 days"
A_MONTH_AND_AN_HOUR: Final = f"{A_MONTH} 70 minutes"
LATER: Final = {
    **dict.fromkeys(("current_date", "curdate"), A_MONTH),
    **dict.fromkeys(("current_timestamp", "localtimestamp", "now"), A_MONTH_AND_AN_HOUR),
    "unix_timestamp": str(31 * 86_400 + 70 * 60),  # seconds
}


@contextmanager
def day_of_spark(session: SparkSession, files: Collection[str], *, is_next: bool) -> Iterator[None]:
    """The next day, or the one before, also if the function sets a zone. Only where the code of `files` names the
    clock: zones also change how times of rows are written. Where it only takes parts of the time, the month and the
    hour are others, too; code that compares times has the day alone.
    """
    if not any(map(asks_spark_for_the_time, files)):
        yield
        return
    before = session.conf.get(SETTING)
    assert before is not None
    session.conf.set(SETTING, ZONES[is_next])
    try:
        with ExitStack() as stack:
            stack.enter_context(zone_kept(session, ZONES[is_next]))
            if is_next and takes_parts_of_the_time_only(files):
                stack.enter_context(columns_a_month_later())
            yield
    finally:
        session.conf.set(SETTING, before)


@contextmanager
def zone_kept(session: SparkSession, zone: str) -> Iterator[None]:
    """A function that sets a zone, by the configuration or in SQL, finds `zone` in its place."""
    configuration: Any = type(session.conf)
    sessions: Any = type(session)
    set_one, run_sql = configuration.set, sessions.sql

    def set_and_keep(self: Any, key: str, value: Any) -> None:
        set_one(self, key, zone if key == SETTING else value)

    def run_and_keep(self: Any, text: str, *arguments: Any, **named: Any) -> Any:
        answer = run_sql(self, text, *arguments, **named)
        if SETS_A_ZONE.match(text):
            set_one(self.conf, SETTING, zone)
        return answer

    configuration.set, sessions.sql = set_and_keep, run_and_keep
    try:
        yield
    finally:
        configuration.set, sessions.sql = set_one, run_sql


@contextmanager
def columns_a_month_later() -> Iterator[None]:
    """Columns of the present time that are made by functions of `pyspark.sql.functions`, and not by SQL."""
    from pyspark.sql.functions import builtin

    functions: Any = builtin
    invoke = functions._invoke_function

    def invoke_later(name: str, *arguments: Any) -> Any:
        column = invoke(name, *arguments)
        return column + invoke("expr", LATER[name]) if name in LATER and not arguments else column

    functions._invoke_function = invoke_later
    try:
        yield
    finally:
        functions._invoke_function = invoke


@contextmanager
def cluster_of_cores(session: SparkSession, cores: int) -> Iterator[None]:
    """0: the cluster is as it is."""
    if not cores:
        yield
        return
    of_context: Any = session.sparkContext._jsc.sc().conf()  # the scheduler reads it each time
    shuffled = session.conf.get(SHUFFLED)
    assert shuffled is not None
    of_context.set(CORES, str(cores))
    session.conf.set(SHUFFLED, cores)
    try:
        yield
    finally:
        of_context.remove(CORES)
        session.conf.set(SHUFFLED, shuffled)


def lose_blocks(session: SparkSession) -> None:
    """Of everything that is cached, as if the executors that have it died: it is computed again where it is read."""
    context: Any = session.sparkContext._jsc
    for cached in list(context.getPersistentRDDs()):
        context.sc().unpersistRDD(cached, True)


@cache
def asks_spark_for_the_time(path: str) -> bool:
    return ASKED.search(Path(path).read_text(errors="replace")) is not None


def takes_parts_of_the_time_only(files: Collection[str]) -> bool:
    texts = [Path(path).read_text(errors="replace") for path in files]
    parts, all_reads = (sum(len(each.findall(text)) for text in texts) for each in (TAKES_A_PART, READS_NOW))
    parts += sum(_is_taken_apart(name, text) for text in texts for name in NAMES_NOW.findall(text))
    return 0 < parts == all_reads


def _is_taken_apart(column: str, text: str) -> bool:
    """Whether a part is taken of a column of this name, wherever it is: `hour("at")`, `F.hour(F.col("at"))`."""
    return re.search(rf"{PART}(?:(?:\w+\.)?col\(\s*)?['\"]{column}['\"]", text) is not None
