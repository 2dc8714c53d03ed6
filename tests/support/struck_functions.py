"""Campaigns of functions with targets that cannot be copied, by drivers without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.foreach_batch.function_campaign import WITHOUT_COPIES, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.foreach_batch.struck_driver import StruckDrivers
from sinkproof.reports.progress import SILENT

ENTRY = Path(__file__).with_name("watched_functions.py")


@contextmanager
def drivers(query: SimulatedQuery, folder: Path) -> Iterator[StruckDrivers]:
    with ForkServer(preload=[str(ENTRY)]) as server:
        opened = StruckDrivers(server, query.contract, query.scratch, folder=folder, entry=f"{ENTRY.stem}:serve")
        try:
            yield opened
        finally:
            opened.close()
            query.contract.call_if_there("teardown", query.scratch)


def campaign(
    query: SimulatedQuery,
    folder: Path,
    *,
    stages: Sequence[str] = ("a death or an error inside one call",),
    seconds: float = 60,
    ends: Callable[[FunctionResults], Deadline] | None = None,
    is_run: bool = True,
) -> FunctionResults:
    results = FunctionResults(query.contract, query.scratch, progress=SILENT)
    carried_out = SimulatedFunctionCampaign(
        *(query, results),
        deadline=Deadline(seconds),
        copies=False,
        drivers=lambda: drivers(query, folder),
        ends=ends and ends(results),
    )
    carried_out.carry_out([stage for stage in WITHOUT_COPIES if stage.name in stages])
    assert is_run is not bool(results.unknowns)
    return results
