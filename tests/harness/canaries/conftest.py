from __future__ import annotations

import pytest

from sinkproof.canaries import conviction


@pytest.fixture(autouse=True)
def patience_for_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules decide what convicts a canary, on a busy machine, too."""
    monkeypatch.setattr(conviction, "CANARY_SECONDS_MOST", 10 * conviction.CANARY_SECONDS_MOST)
