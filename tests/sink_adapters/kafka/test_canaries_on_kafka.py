"""The canaries of the real broker: each is convicted for its own root cause, and its control is not."""

from __future__ import annotations

import pytest

from sinkproof.canaries.on_kafka import CANARIES, ON_KAFKA
from sinkproof.reports.progress import SILENT

from ...support.real_services import end_own_services


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [3, pytest.param(1, marks=pytest.mark.longer)])
def test_each_is_convicted_for_its_own_root_cause_and_the_control_is_not(
    one_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SINKPROOF_KAFKA", raising=False)
    tried = CANARIES[::one_in]
    try:
        results = ON_KAFKA._replace(canaries=tried).run(progress=SILENT)
    finally:
        end_own_services("kafka")
    canaries, controls = ([result for result in results if result.control is kind] for kind in (False, True))
    assert len(tried) == len(canaries) == 9 // one_in
    assert [] == [(result.name, result.why) for result in canaries if not result.convicted]
    assert [] == [(result.name, result.why) for result in controls if result.convicted]
    assert 1 == len(controls)


def test_each_has_a_root_cause_of_its_own() -> None:
    assert len(CANARIES) == len({canary.root_cause for canary in CANARIES})
    for canary in CANARIES:
        assert (canary.contract.__doc__ or "").startswith(f"{canary.root_cause}: ")
