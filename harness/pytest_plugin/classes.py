"""Makes a contract into pytest tests, one per claim and protocol step: `TestMine = certification(MyContract)`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.campaign.coverage import STEPS_REQUIRED
from sinkproof.pytest_plugin.plugin import PROPERTY
from sinkproof.subject.claims import names
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import check, locator_of

if TYPE_CHECKING:
    import pytest


ENDED_EARLY: Final = "A claim is broken, and the campaign ended early: see the tests of claims"
CANARIES: Final = ("once", "always", "never")


def certification(
    contract: type,
    *,
    shells: Sequence[str] | None = None,
    budget_seconds: float | None = None,
    canaries: str = "once",
    strict: bool | None = None,
) -> type:
    """A test class for pytest. Its first test that runs certifies the sink; the other tests read the certificate.

    What is not given is taken from pytest's configuration (sinkproof_shells, _budget, _strict); its command line
    (--sinkproof-budget) comes before both.

    `canaries`: how often the certifier itself is tested. "once": once a day by this version on this machine. "always":
    for each certification. "never": the certificate says that nothing vouches for the certifier.
    Results are kept in pytest's cache folder. With "always", or --sinkproof-fresh, nothing that was kept is used.
    """
    import pytest

    if canaries not in CANARIES:
        raise ContractError(f"canaries={canaries!r} is not understood. Choose one of {', '.join(CANARIES)}")
    locator = locator_of(contract)
    claims = names(check(locator, contract).claims)

    @pytest.mark.sinkproof
    class Certification:
        """One test per claim and protocol step."""

        certification_line = sys._getframe(1).f_lineno - 1  # where pytest says that the tests are

        @pytest.fixture
        def subject(self, request: pytest.FixtureRequest) -> dict[str, Any]:
            from sinkproof.pytest_plugin.certified_once import certified
            from sinkproof.pytest_plugin.settings import Asked, options_for

            asked = Asked(shells=shells, budget_seconds=budget_seconds, canaries=canaries, strict=strict)
            return certified(locator, request, options=options_for(request.config, asked))

        @pytest.mark.parametrize("claim", claims)
        def test_claim(self, subject: dict[str, Any], claim: str, request: pytest.FixtureRequest) -> None:
            _check_claim(subject, claim, request)

        @pytest.mark.parametrize("step", STEPS_REQUIRED)
        def test_step(self, subject: dict[str, Any], step: str, request: pytest.FixtureRequest) -> None:
            _check_step(subject, step, waived=waived_claims(subject, request.config.rootpath))

    Certification.__module__ = contract.__module__
    Certification.__name__ = Certification.__qualname__ = f"Test{contract.__name__}"
    return Certification


def _check_claim(subject: dict[str, Any], claim: str, request: pytest.FixtureRequest) -> None:
    import pytest

    from sinkproof.reports.coverage_text import beside_the_verdict

    result = next((result for result in subject["claims"] if result["claim"] == claim), None)
    if result is None:
        pytest.skip(f"{claim} is not judged: {subject['not_compared']}")
    beside = beside_the_verdict(subject)
    request.node.user_properties.append((PROPERTY, "\n".join([subject["name"], *beside])))
    if result["verdict"] != "upheld":
        ended_early = result["verdict"] == "unknown" and subject["verdict"] == "violated"
        why = f"{claim} is {result['verdict']}: {ENDED_EARLY if ended_early else _in_options_of_pytest(result['why'])}"
        against = [finding for finding in subject["findings"] if finding["claim"] == claim]
        lines = [why, *most_informative(against), subject["certificate"]]  # the summary has what stands beside it
        if claim in waived_claims(subject, request.config.rootpath):
            pytest.xfail("\n".join(["VIOLATED, waived", *lines]))
        pytest.fail("\n".join(lines), pytrace=False)


def _in_options_of_pytest(text: str) -> str:
    text = re.sub(r"run it --on (\w+) as well", r"name \1 in sinkproof_shells as well", text)
    return text.replace("--budget", "--sinkproof-budget")


def _check_step(subject: dict[str, Any], step: str, *, waived: set[str]) -> None:
    import pytest

    broken = [finding for finding in subject["findings"] if finding["claimed"] and strikes(finding, step)]
    if broken and {finding["claim"] for finding in broken} <= waived:
        pytest.xfail("\n".join(["VIOLATED, waived", *most_informative(broken)]))
    if broken:
        pytest.fail("\n".join([*most_informative(broken), subject["certificate"]]), pytrace=False)
    if not any(step in (*shell["points_reached"], *shell["points_covered"]) for shell in subject["shells"]):
        why = ENDED_EARLY if subject["verdict"] == "violated" else _in_options_of_pytest(subject["why"])
        pytest.fail(f"UNKNOWN: no fault ever struck at {step}. {why}", pytrace=False)


def waived_claims(subject: dict[str, Any], root: Path) -> set[str]:
    """Claims of which every violation is waived in the project's pyproject.toml: their tests are expected to fail."""
    from sinkproof.certifier.waivers import WaiverCheck, waivers_of
    from sinkproof.chaos.clock import utc_now

    document = {"verdict": subject["verdict"], "subjects": [subject], "canaries": []}
    check = WaiverCheck(document=document, waivers=waivers_of(root), today=utc_now().date())
    return check.waived_claims(subject["name"])


def strikes(finding: dict[str, Any], step: str) -> bool:
    """Whether the finding's last fault struck at this step."""
    return f"{step}#" in finding["schedule"].split()[-1]


def most_informative(findings: Sequence[dict[str, Any]]) -> list[str]:
    """One finding in full, if possible one with a line of the sink's code, and how many more there are."""
    if not findings:
        return []
    best = min(findings, key=lambda finding: (finding["line"] is None, len(finding["schedule"].split())))
    more = [f"{len(findings) - 1} more findings are in the certificate"] if len(findings) > 1 else []
    return [described(best), *more]


def described(finding: dict[str, Any]) -> str:
    """The rows, what happened to them at the target, the line at which the fault struck, the likely cause, and the
    command that replays the finding.
    """
    from sinkproof.reports.story import at_target

    lines = [f"{finding['oracle']}: {finding['why']}"]
    for kind in ("lost", "extra"):
        if finding[kind]:
            lines.append(f"  {kind}: {', '.join(str(tuple(row)) for row in finding[kind])}")
    lines += [f"  {line}" for line in at_target({"target": None, **finding})]
    if finding["line"]:
        line = finding["line"]
        lines.append(f"  struck at {line['file']}:{line['number']}: {line['text']}")
    lines += [f"  likely:  {finding['root_cause']}"] if finding.get("root_cause") else []
    lines.append(f"  replay:  {finding['replay']}")
    return "\n".join(lines)
