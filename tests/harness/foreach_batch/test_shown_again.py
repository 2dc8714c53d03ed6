"""What breaks a claim only beside other runs of the same process, and not in one of its own, is no finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sinkproof.campaign.task import Task
from sinkproof.chaos.clock import Deadline
from sinkproof.foreach_batch.certify_function import forget_unless_shown_again
from sinkproof.foreach_batch.function_campaign import SIMULATED_FUNCTION_PLAN, SimulatedFunctionCampaign
from sinkproof.foreach_batch.function_results import FunctionResults
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.reports.progress import SILENT

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["show", "show_nothing", "die"])
def test_a_finding_is_shown_again_in_a_process_of_its_own(
    entry: str, query: Callable[..., SimulatedQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SUPPORT))
    simulated = query("swallow")
    results = FunctionResults(simulated.contract, simulated.scratch, progress=SILENT)
    campaign = SimulatedFunctionCampaign(simulated, results, deadline=Deadline(60))
    campaign.carry_out([stage for stage in SIMULATED_FUNCTION_PLAN if stage.name.startswith("errors, after")])
    assert results.breaks_a_claim
    task = Task(locator=simulated.contract.locator, shell="simulated", budget_seconds=1.0)
    forget_unless_shown_again(results, task, entry=f"watched_functions:{entry}")
    is_kept = entry != "show_nothing"  # a process that dies refutes nothing
    assert is_kept is results.breaks_a_claim
    assert is_kept is not any("in a process that has made other runs before" in why for why in results.unknowns)
