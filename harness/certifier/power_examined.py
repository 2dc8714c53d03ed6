"""Was the power lost often enough that it is known what survives? Why not, if not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sinkproof.chaos.faults import POWER_LOSSES
from sinkproof.reports.document import PowerLosses, ShellResult
from sinkproof.subject.contract import Contract

NOT_WATCHED: Final = (
    "the contract has no lose_power(scratch), and what was not forced to disk is known where system calls of sinks are "
    "watched only"
)
NOT_PUT_BACK: Final = "what it changes outside of its folder was not put back to what would survive"


def power_not_examined(contract: Contract, shells: Sequence[ShellResult]) -> str:
    """Empty if it was."""
    if contract.offers("lose_power"):
        return "" if struck(shells, frozenset(POWER_LOSSES)) else "no power was lost; run it --on simulated as well"
    power = next((shell.power for shell in shells if shell.power is not None), None)
    if power is None:
        ran = any(shell.shell == "process" for shell in shells)
        return f"{NOT_WATCHED}: {'no such run was made' if ran else 'run it --on process as well'}"
    outward = next((shell.outward for shell in shells if shell.outward is not None), None)
    if outward is not None and outward.elsewhere:
        return f"{NOT_PUT_BACK}: {', '.join(outward.elsewhere)}"
    return _not_watched(power)


def _not_watched(power: PowerLosses) -> str:
    if power.unwatched:
        return f"{NOT_WATCHED}: {power.unwatched}"
    if power.mapped:
        files = ", ".join(power.mapped)
        return f"it maps {files} into its memory, and uses that after a loss of power: what survives there is not known"
    if not power.took:
        return "no loss of power took anything away: nothing that was written below scratch.path was unforced"
    if power.left:
        missing = power.losses - power.struck
        return f"{missing} losses of power did not strike, such as {power.left[0]}; give it a larger --budget"
    return ""


def struck(shells: Sequence[ShellResult], kinds: frozenset[str]) -> bool:
    outcomes = [outcome for shell in shells for outcome in shell.outcomes]
    return any(outcome.fault in kinds and outcome.runs and outcome.outcome != "unfired" for outcome in outcomes)
