"""Tries every canary and every control in one shell or on one service: every certificate begins with this."""

from __future__ import annotations

from collections.abc import Sequence

from sinkproof.canaries.catalogue import CONTROLS
from sinkproof.canaries.conviction import (
    campaign_functions,
    canaries_for,
    try_canary,
    try_control,
    try_controls_under_watch,
)
from sinkproof.canaries.inside_services import INSIDE_SERVICE
from sinkproof.reports.document import CanaryResult
from sinkproof.reports.progress import SILENT, Progress


def try_all(
    shell: str, *, progress: Progress = SILENT, control_seconds: float, only: frozenset[str] = frozenset()
) -> Sequence[CanaryResult]:
    """Canaries until each is convicted of its own sin, controls for some seconds each: most need one. `only`: with
    these names, in the simulated or the process shell; empty: all.
    """
    if shell == "spark":
        from sinkproof.canaries.on_spark import try_all_on_spark

        return try_all_on_spark(progress=progress, control_seconds=control_seconds)
    if shell == "kafka":
        from sinkproof.canaries.on_kafka import ON_KAFKA

        return ON_KAFKA.run(progress=progress)
    if shell == "cassandra":
        from sinkproof.canaries.on_cassandra import ON_CASSANDRA

        return ON_CASSANDRA.run(progress=progress)
    if shell == INSIDE_SERVICE:
        from sinkproof.canaries.inside_services.on_two_file_store import ON_STORES

        return ON_STORES.run(progress=progress)
    canaries = [canary for canary in canaries_for(shell) if not only or canary.name in only]
    controls = [control for control in CONTROLS if not only or control[0] in only]
    with campaign_functions(canaries, shell, progress=progress) as campaign_for:
        results = [try_canary(canary, shell, progress=progress, run_as=campaign_for(canary)) for canary in canaries]
    results += [
        try_control(name, contract, shell, progress=progress, seconds=control_seconds) for name, contract in controls
    ]
    if any(canary.stages for canary in canaries):
        results += try_controls_under_watch(shell, progress=progress, seconds=control_seconds)
    return results
