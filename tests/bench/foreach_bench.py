"""foreachBatch functions in `make bench`: runs of a simulated query after deaths, beside the function alone.

Both are rates of the wall, in one Spark session. Most of a run is Spark's own: one of its jobs collects each batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from itertools import cycle
from time import perf_counter
from typing import Any

from sinkproof.foreach_batch.certifying_query import STANDARD, frame_of_batch, named_query
from sinkproof.foreach_batch.crash_exploration import Exploration
from sinkproof.foreach_batch.function_canaries import CONTROL, laid_out
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reference_engine.shells.spark.spark_session import start_session, stop_session
from sinkproof.subject.scratch import Scratch, clear_folder, fresh_folder

MASTER = "local[2]"
AIM = 100
Row = dict[str, Any]


class CountedQuery(SimulatedQuery):
    """Counts its runs, and the calls of the function in them."""

    runs, calls = 0, 0

    def run(self, *arguments: Any, **options: Any) -> Any:
        self.runs += 1
        return super().run(*arguments, **options)

    def _run_batch(self, **options: Any) -> None:
        self.calls += 1
        super()._run_batch(**options)


def measure(seconds: float) -> list[Row]:
    folder = fresh_folder()
    scratch = Scratch(name="bench", path=folder / "scratch")
    scratch.path.mkdir()
    contract = laid_out(folder / "functions")[CONTROL]
    session = start_session(master=MASTER, folder=folder, here=scratch.path)
    try:
        with chdir(scratch.path):
            calls_alone(contract.given.write_batch, session, seconds=seconds)  # the JVM compiles what runs often
            query = CountedQuery(contract, scratch, session)
            began = perf_counter()
            while perf_counter() - began < seconds or not query.runs:
                clear_folder(scratch.path)
                explore(query, ends=began + seconds)
            took = perf_counter() - began
            alone = calls_alone(contract.given.write_batch, session, seconds=seconds)
    finally:
        stop_session(session)
        shutil.rmtree(folder, ignore_errors=True)
    per_run = query.calls / query.runs
    return [
        {"what": "foreachBatch, simulated: runs after deaths", "value": round(query.runs / took, 1), "aim": AIM},
        {"what": "floor: the function alone, as often", "value": round(alone / per_run, 1), "aim": ""},
    ]


def explore(query: SimulatedQuery, *, ends: float) -> None:
    """Until no state is new, or the time is over."""
    exploration = Exploration(query, should_stop=lambda: perf_counter() >= ends, step=lambda what: None)
    assert exploration.run_without_crash()
    exploration.crash_again()
    assert not exploration.bad_states


def calls_alone(function: Callable[[Any, int], None], session: Any, *, seconds: float) -> float:
    """A second, on the batches of the standard query."""
    query = named_query(STANDARD)
    began = perf_counter()
    for calls, batch in enumerate(cycle(range(len(query.batches))), 1):
        function(frame_of_batch(session, query, batch), query.first_id + batch)
        if perf_counter() - began >= seconds:
            return calls / (perf_counter() - began)
    raise AssertionError("a query has batches")


def table(rows: list[Row]) -> Iterator[str]:
    yield f"{'foreachBatch functions':52}{'/s':>12}{'aim':>8}"
    for row in rows:
        yield f"{row['what']:52}{row['value']:>12}{row['aim']:>8}"
