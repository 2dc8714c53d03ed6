"""Memory is flat or it is not: what the soak concludes from its samples."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from soak_memory import grown, summary

MB = 1 << 20


def test_one_peak_is_no_growth_but_a_leak_is() -> None:
    steady = [80 * MB] * 40
    steady[20] = 500 * MB
    leaking = [(80 + 5 * at) * MB for at in range(40)]
    samples = [{"worker": flat, "driver": leak} for flat, leak in zip(steady, leaking, strict=True)]
    found = summary(samples)
    assert {"start_bytes": 80 * MB, "end_bytes": 80 * MB, "most_bytes": 500 * MB} == found["worker"]
    assert ["driver"] == grown(found)


def test_a_jvm_may_use_what_it_was_given() -> None:
    inside, beyond = {"start_bytes": 300 * MB, "end_bytes": 900 * MB}, {"start_bytes": 300 * MB, "end_bytes": 1300 * MB}
    assert [] == grown({"JVM": inside})
    assert ["JVM"] == grown({"JVM": beyond})
