"""What a failed test of a certification says."""

from __future__ import annotations

from typing import Any

import pytest

from sinkproof.pytest_plugin.classes import ENDED_EARLY, _check_step, described
from sinkproof.reports.report_facts import filled

from ...support.sample_certificate import REPLAY, sample


def subject(**changes: Any) -> dict[str, Any]:
    return {**filled(sample())["subjects"][1], "certificate": "certificate: here", **changes}


def test_it_tells_the_rows_what_repeated_them_the_line_the_cause_and_the_replay() -> None:
    finding = subject()["findings"][0]
    lines = described(finding).splitlines()
    assert "  0:0 k0=v0, 0:1 k0=v1: visible once when the fault struck, twice in the end" in lines
    assert "  0.214 sink[0]: creates part-0-2; 10 rows appear once more: 0:0, 0:1, 0:2, 0:3, …" in lines
    assert "  likely:  R1 data and progress marker not atomic" in lines
    assert f"  replay:  {REPLAY}" == lines[-1]


def test_a_finding_of_an_older_certificate_is_told_as_well() -> None:
    older = {key: value for key, value in subject()["findings"][0].items() if key not in ("target", "root_cause")}
    assert "likely" not in described(older)
    assert f"  replay:  {REPLAY}" == described(older).splitlines()[-1]


def test_a_step_that_a_campaign_has_not_reached_says_why_it_ended() -> None:
    unreached = subject(findings=[], why="NO_DUPLICATES: O2: …", shells=[])
    with pytest.raises(pytest.fail.Exception, match=ENDED_EARLY):
        _check_step(unreached, "commit.after", waived=set())
    with pytest.raises(pytest.fail.Exception, match="the budget ended"):
        _check_step({**unreached, "verdict": "unknown", "why": "the budget ended"}, "commit.after", waived=set())


def test_the_next_step_is_an_option_of_pytest() -> None:
    why = "no reader ran beside the sinks; run it --on simulated as well; give it a larger --budget: 90s may suffice"
    unreached = subject(findings=[], verdict="unknown", why=why, shells=[])
    expected = "name simulated in sinkproof_shells as well; give it a larger --sinkproof-budget: 90s may suffice"
    with pytest.raises(pytest.fail.Exception, match=expected):
        _check_step(unreached, "commit.after", waived=set())
