"""Controls of the canaries that are wrong between two system calls, or in what they do not force."""

from __future__ import annotations

import pytest

from sinkproof.canaries.catalogue import CANARIES, CONTROLS_UNDER_WATCH
from sinkproof.canaries.conviction import canaries_for, try_controls_under_watch

SECONDS = 5.0  # for each: it meets some dozens of deaths, or losses of power


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
def test_controls_under_the_watch_are_acquitted() -> None:
    results = try_controls_under_watch("process", seconds=SECONDS)
    assert {name for name, _, _ in CONTROLS_UNDER_WATCH} == {result.name for result in results}
    assert [] == [result.why for result in results if result.convicted]


def test_where_no_call_can_be_watched_their_canaries_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkproof.canaries.conviction.why_not_watched", lambda: "the kernel lacks it")
    named = {canary.name for canary in CANARIES if canary.stages}
    assert named
    assert named.isdisjoint(canary.name for canary in canaries_for("process"))
