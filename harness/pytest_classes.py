"""A contract as pytest tests: `TestMine = certification(MyContract)` gives one test per claim and per protocol step."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from sinkproof.claims import names
from sinkproof.contract import check, locator_of
from sinkproof.tally import STEPS_REQUIRED

BUDGET_SECONDS: Final = 20.0  # per shell; a small sink is through its whole bound in less


def certification(
    contract: type, *, shells: Sequence[str] = ("simulated", "process"), budget_seconds: float = BUDGET_SECONDS
) -> type:
    """A test class for pytest. The first of its tests that runs certifies the sink; the others read the certificate."""
    import pytest

    locator = locator_of(contract)
    claims = names(check(locator, contract).claims)

    class Certification:
        """One test per claim and protocol step."""

        @pytest.mark.parametrize("claim", claims)
        def test_claim(self, claim: str) -> None:
            subject = certified(locator, tuple(shells), budget_seconds)
            result = next(result for result in subject["claims"] if result["claim"] == claim)
            if result["verdict"] != "upheld":
                pytest.fail(
                    f"{claim} is {result['verdict']}: {result['why']}\n{evidence(subject, claim)}", pytrace=False
                )

        @pytest.mark.parametrize("step", STEPS_REQUIRED)
        def test_step(self, step: str) -> None:
            subject = certified(locator, tuple(shells), budget_seconds)
            broken = [finding for finding in subject["findings"] if finding["claimed"] and strikes(finding, step)]
            if broken:
                pytest.fail("\n".join(told(finding) for finding in broken), pytrace=False)
            if not any(step in shell["points_reached"] for shell in subject["shells"]):
                pytest.fail(f"UNKNOWN: no fault ever struck at {step}. {subject['why']}", pytrace=False)

    Certification.__module__ = contract.__module__
    Certification.__name__ = Certification.__qualname__ = f"Test{contract.__name__}"
    return Certification


@cache
def certified(locator: str, shells: tuple[str, ...], budget_seconds: float) -> dict[str, Any]:
    """Certifies once per process; the certifier's own trial is part of it."""
    from sinkproof.certifying import Options, certify

    with tempfile.TemporaryDirectory(prefix="sinkproof-certificate-") as folder:
        document = certify([locator], Path(folder), options=Options(shells=shells, budget_seconds=budget_seconds))
    return dict(document["subjects"][0])


def strikes(finding: dict[str, Any], step: str) -> bool:
    """Whether the finding's last fault struck at this step."""
    return f"{step}#" in finding["schedule"].split()[-1]


def evidence(subject: dict[str, Any], claim: str) -> str:
    found = [finding for finding in subject["findings"] if finding["claim"] == claim]
    return "\n".join(told(finding) for finding in found)


def told(finding: dict[str, Any]) -> str:
    """The rows, the line that was struck, and the one command that shows it again."""
    lines = [f"{finding['oracle']}: {finding['why']}"]
    for kind in ("lost", "extra"):
        if finding[kind]:
            lines.append(f"  {kind}: {', '.join(str(tuple(row)) for row in finding[kind])}")
    if finding["line"]:
        line = finding["line"]
        lines.append(f"  struck at {line['file']}:{line['number']}: {line['text']}")
    lines.append(f"  replay:  {finding['replay']}")
    return "\n".join(lines)
