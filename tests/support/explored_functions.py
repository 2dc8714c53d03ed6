"""foreachBatch functions in a simulated query without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.schedule import Schedule
from sinkproof.foreach_batch.certifying_query import LEDGER, SPLITS
from sinkproof.foreach_batch.crash_exploration import Exploration
from sinkproof.foreach_batch.failing_jobs import PROPERTY, TOLD
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.seen_by_spark import SHUFFLED
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.sink_adapters.protocol import Row

FUNCTIONS = Path(__file__).parents[1] / "harness" / "foreach_batch" / "functions"


class Properties(dict[str, str]):
    """Those of a JVM, by its names."""

    @property
    def java(self) -> SimpleNamespace:
        system = SimpleNamespace(setProperty=self.__setitem__, clearProperty=lambda name: self.pop(name, None))
        return SimpleNamespace(lang=SimpleNamespace(System=system))


PROPERTIES = Properties()


class Settings(dict[str, str]):
    """Of a session, or of Spark."""

    def set(self, name: str, value: object) -> None:
        self[name] = str(value)

    def remove(self, name: str) -> None:
        del self[name]


SETTINGS = Settings({SHUFFLED: "2"})


class Frame:
    """The part of a DataFrame that functions without Spark need, and of its session."""

    conf = SETTINGS
    sparkContext = SimpleNamespace(  # noqa: N815
        _jvm=PROPERTIES, _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: SETTINGS))
    )

    def __init__(self, values: range, *, rows: list[Any] | None = None, fails: bool = False) -> None:
        self.values, self.rows, self.fails = values, rows, fails

    def createDataFrame(self, rows: list[Any], columns: str) -> Frame:  # noqa: N802
        return Frame(range(0), rows=[Row(*row) for row in rows])

    def range(self, first: int, end: int, step: int, partitions: int) -> Frame:
        return Frame(range(first, end, step))

    def toDF(self, name: str) -> Frame:  # noqa: N802
        return self

    def where(self, condition: str) -> Frame:
        return Frame(self.values, rows=self.rows, fails="raise_error" in condition)

    def selectExpr(self, *columns: str) -> Frame:  # noqa: N802
        return self

    def repartition(self, *by: int | str) -> Frame:
        return self

    def count(self) -> int:
        return len(self.collect())

    def collect(self) -> list[Any]:
        if self.fails and PROPERTIES.get(PROPERTY) == TOLD:
            raise RuntimeError("injected")
        if self.rows is not None:
            return self.rows
        return [LEDGER.rows[value % SPLITS, value // SPLITS] for value in self.values]


class EndsWhenAsked(Deadline):
    """Over from so many questions on."""

    def __init__(self, times: int) -> None:
        super().__init__(60)
        self.times = times

    @property
    def over(self) -> bool:
        self.times -= 1
        return self.times < 0


class EndsWhenFound(Deadline):
    """Over as soon as these schedules break a claim; without schedules, any that does."""

    def __init__(self, results: FunctionResults, *schedules: str) -> None:
        super().__init__(60)
        self.results, self.schedules = results, set(schedules)

    @property
    def over(self) -> bool:
        claimed = {each.schedule for each in self.results.findings if each.claimed}
        return bool(claimed) and self.schedules <= claimed


def explored(query: SimulatedQuery, *, sequences: bool = True) -> Exploration:
    exploration = Exploration(query, should_stop=lambda: not sequences, step=lambda what: None)
    if exploration.run_without_crash():
        exploration.crash_once()
        exploration.crash_again()
    return exploration


def wrong(exploration: Exploration) -> dict[str, list[str]]:
    """Schedule -> oracles."""
    return {
        str(Schedule(judged.first.faults)): [anomaly.oracle for anomaly in judged.anomalies]
        for judged in exploration.states.values()
        if judged.anomalies
    }
