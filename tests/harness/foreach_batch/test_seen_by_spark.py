"""Spark sees another day after an outage, where a function asks Spark for it, and other cores in another cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import builtin

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import parse
from sinkproof.foreach_batch.certify_function import simulated_query
from sinkproof.foreach_batch.certifying_query import (
    BEFORE_COMMIT,
    EARLY,
    LOST_BLOCKS_JOB,
    MANY_PARTITIONS_JOB,
    SMALLER_CLUSTER_JOB,
    anomalies_of,
)
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.function_campaign import (
    EXPERIMENTS_LEAST,
    SIMULATED_FUNCTION_PLAN,
    SMALLER_CLUSTERS,
    SimulatedFunctionCampaign,
)
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.seen_by_spark import (
    SETTING,
    columns_a_month_later,
    day_of_spark,
    takes_parts_of_the_time_only,
)
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, clear_folder
from sinkproof.workload.job_names import OUTAGE_JOB

from ...support.explored_functions import FUNCTIONS


class Session:
    """The settings of a session; as SQL it knows one of them."""

    def __init__(self) -> None:
        self.conf, self.settings = self, {SETTING: "UTC"}

    def get(self, name: str) -> str:
        return self.settings[name]

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def sql(self, text: str) -> None:
        self.set(SETTING, text.rpartition(" ")[2])


@pytest.mark.parametrize(
    ("code", "zones"),
    [
        ("df.withColumn('day', current_date())", ("-11:00", "+13:00")),
        ("df.selectExpr('current_timestamp() AS at')", ("-11:00", "+13:00")),
        ("df.withColumn('day', F.to_date(F.now()))", ("-11:00", "+13:00")),
        ("datetime.now()", ("UTC", "UTC")),
    ],
)
def test_a_day_passes_where_the_code_asks_spark_for_it(code: str, zones: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "function.py"
    file.write_text(code)
    session: Any = Session()
    seen = []
    for is_next in (False, True):
        with day_of_spark(session, [str(file)], is_next=is_next):
            seen.append(session.get(SETTING))
        assert "UTC" == session.get(SETTING)
    assert zones == tuple(seen)


@pytest.mark.parametrize(
    ("code", "parts_only"),
    [
        ("F.date_format(F.current_timestamp(), 'yyyy-MM')", True),
        ("F.date_trunc('hour', now())", True),
        ("month(current_date()) + hour(F.now())", True),
        ("F.hour(F.now()); df.filter(F.col('at') > F.current_timestamp() - week)", False),
        ("F.date_format('at', 'yyyy-MM')", False),
        ("F.floor(F.unix_timestamp() / 3600)", True),
        ("F.unix_timestamp('at') / 3600", False),
        ("df.withColumn('at', F.current_timestamp()).withColumn('hour', F.hour('at'))", True),
        ("df.withColumn('at', F.now()).withColumn('hour', F.date_format(F.col('at'), 'HH'))", True),
        ("df.withColumn('at', F.current_timestamp())", False),
        ("df.withColumn('at', F.current_timestamp()).filter(F.col('until') < F.now()).select(F.hour('at'))", False),
    ],
)
def test_a_month_passes_where_code_takes_parts_of_the_time_and_compares_none(
    code: str, parts_only: bool, tmp_path: Path
) -> None:
    (tmp_path / "function.py").write_text(code)
    assert parts_only is takes_parts_of_the_time_only([str(tmp_path / "function.py")])


class Made(str):
    """A column, as a text."""

    def __add__(self, other: str) -> Made:
        return Made(f"{self} + {other}")


def test_columns_of_the_present_time_are_later_and_those_of_rows_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    functions: Any = builtin
    made = lambda name, *given: Made(f"{name}({', '.join(map(str, given))})")  # noqa: E731
    monkeypatch.setattr(functions, "_invoke_function", made)
    with columns_a_month_later():
        assert "now() + expr(interval 31 days 70 minutes)" == functions._invoke_function("now")
        assert "unix_timestamp() + expr(2682600)" == functions._invoke_function("unix_timestamp")
        assert "unix_timestamp(at)" == functions._invoke_function("unix_timestamp", "at")
        assert "lower(key)" == functions._invoke_function("lower", "key")
    assert "now()" == functions._invoke_function("now")


@pytest.mark.parametrize("said", ["SET TIME ZONE UTC", " set spark.sql.session.timeZone = UTC", ""])
def test_it_passes_also_where_the_code_sets_a_zone(said: str, tmp_path: Path) -> None:
    file = tmp_path / "function.py"
    file.write_text("current_date()")
    session: Any = Session()
    with day_of_spark(session, [str(file)], is_next=True):
        session.sql(said) if said else session.conf.set(SETTING, "UTC")
        assert "+13:00" == session.get(SETTING)
        session.conf.set("another", "value")
        assert "value" == session.get("another")
    session.set(SETTING, "Europe/Berlin")
    assert "Europe/Berlin" == session.get(SETTING)


@pytest.mark.slow
@pytest.mark.longer
def test_what_a_larger_cluster_has_left_is_there_beside_what_a_smaller_one_writes(tmp_path: Path) -> None:
    functions = [
        load(f"{FUNCTIONS}/written_by_tasks.py:{name}") for name in ("spread", "replace_partitions", "replace")
    ]
    schedule = parse(f"job={SMALLER_CLUSTER_JOB} {BEFORE_COMMIT}#2=kill-job")
    found = []
    with simulated_query(functions[0], Scratch(name="cores", path=tmp_path), progress=SILENT) as query:
        for function in functions:
            clear_folder(tmp_path)
            ending, _, _ = follow(SimulatedQuery(function, query.scratch, query.session), schedule)
            found.append([anomaly.oracle for anomaly in anomalies_of(ending, "append")])
        assert 2 == query.session.sparkContext.defaultParallelism
    assert [["O2"], ["O2"], []] == found


@pytest.mark.slow
def test_deaths_in_the_larger_cluster_are_tried(query: Callable[[str], SimulatedQuery]) -> None:
    made = query("replace")
    results = FunctionResults(made.contract, made.scratch, progress=SILENT)
    campaign = SimulatedFunctionCampaign(made, results, deadline=Deadline(60))
    assert campaign.prepare()
    campaign.carry_out([stage for stage in SIMULATED_FUNCTION_PLAN if stage == SMALLER_CLUSTERS])
    assert [1 + EXPERIMENTS_LEAST] == [stage.run for stage in results.coverage.stages]


@pytest.mark.slow
def test_what_is_cached_is_lost_batches_have_many_partitions_and_a_month_passes(tmp_path: Path) -> None:
    """One session for all, as its start takes seconds."""
    right, lost, twice = list[str](), ["O1"], ["O2"]
    month_later = f"job={OUTAGE_JOB} {BEFORE_COMMIT}#2=kill-job"
    runs = (
        *(("joined", "no-fault", right), ("joined", f"job={LOST_BLOCKS_JOB}", lost)),
        ("joined_by_row", f"job={LOST_BLOCKS_JOB}", right),
        *(("numbered", "no-fault", right), ("numbered", f"job={MANY_PARTITIONS_JOB}", lost)),
        ("joined_by_row", f"job={MANY_PARTITIONS_JOB}", right),
        *(("by_month", month_later, twice), ("by_batch", month_later, right)),
    )
    functions = {name: load(f"{FUNCTIONS}/cached_and_numbered.py:{name}") for name, _, _ in runs}
    with simulated_query(functions["joined"], Scratch(name="cached", path=tmp_path), progress=SILENT) as query:
        for name, text, expected in runs:
            clear_folder(tmp_path)
            schedule = parse(text if "=kill" in text or text == "no-fault" else f"{text} no-fault")
            ending, _, _ = follow(SimulatedQuery(functions[name], query.scratch, query.session), schedule)
            anomalies = anomalies_of(ending, "append", job=schedule.job)
            found = [each.oracle for each in anomalies if each.oracle != EARLY]
            assert ("", expected) == (ending.failure, found), (name, text)
