"""Would duplicates be found at all? A function that is wrong on purpose, and its correct control.

The canary appends each batch to one folder; the control replaces a folder of the batch's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.certifying_query import BEFORE_COMMIT, KILL, anomalies_of
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery, follow
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch, clear_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEDULE: Final = Schedule((Fault(COORDINATOR, BEFORE_COMMIT, 2, KILL),))


def append(frame: DataFrame, batch_id: int) -> None:
    frame.write.mode("append").json("rows")


def replace(frame: DataFrame, batch_id: int) -> None:
    frame.write.mode("overwrite").json(f"rows/batch={batch_id}")


def committed(scratch: Scratch) -> Iterator[tuple[int, int]]:
    for file in sorted(Path(scratch.path, "rows").rglob("part-*.json")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            yield row["split"], row["offset"]


def blind_spots(scratch: Scratch, session: SparkSession) -> list[str]:
    """Reasons not to trust an upheld claim of this shell; empty if there is none. Leaves the scratch folder empty."""
    reasons = []
    canaries: list[tuple[Callable[..., Any], list[str]]] = [(append, ["O2"]), (replace, [])]
    for function, expected in canaries:
        given = SimpleNamespace(claims=Claim.EFFECTIVELY_ONCE, committed=committed, write_batch=function, files={})
        query = SimulatedQuery(Contract(function.__name__, given), scratch, session)
        ending, _, _ = follow(query, SCHEDULE)
        clear_folder(scratch.path)
        if (found := [anomaly.oracle for anomaly in anomalies_of(ending, "append")]) != expected:
            what = "the canary that appends" if expected else "the control that replaces"
            reasons.append(f"{what} was judged {found or 'right'} at {SCHEDULE}: {ending.failure or 'the query ended'}")
    return reasons
