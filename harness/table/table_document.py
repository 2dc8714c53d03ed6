"""Makes the document of the table: what was measured, what was not in this run, and which pairs cannot exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sinkproof.chaos.clock import now
from sinkproof.chaos.processes.spawn import ForkServerError
from sinkproof.chaos.services.service import ServiceError
from sinkproof.judging.observer import NeverQuiet
from sinkproof.judging.verdict_and_exit_codes import Verdict
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.sink_adapters.cassandra.cassandra_client import NotAcknowledged
from sinkproof.sink_adapters.kafka.topic_reader import ReadFailed
from sinkproof.sink_adapters.kafka.transaction_control import NotNow
from sinkproof.subject.service_options import DEFAULT_SERVICES, ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.table.driven_sink import BULK_ROWS, HELD_ROWS, ROW_BYTES
from sinkproof.table.expected_and_empty_cells import EVERY_PAIR, TARGETS, WAYS, WHY_NOT, cell_of, offers, pairs_on
from sinkproof.table.machine import disk_folder, machine
from sinkproof.table.measurements import INTERVAL_SECONDS, NotMeasured, differences, expected, measure

SCHEMA: Final = "sinkproof/table/1"
FAILURES: Final = (  # of a pair that cannot be measured: the others can
    *(NotMeasured, ForkServerError, ServiceError),
    *(ReaderFailed, NeverQuiet, ReadFailed, NotNow, NotAcknowledged),
)
Report = Callable[[str, str], None]  # receives the pair, and what is done with it


def table(
    targets: Sequence[str],
    *,
    report: Report,
    pairs: Sequence[str] = (),
    services: ServiceOptions = DEFAULT_SERVICES,
) -> dict[str, Any]:
    """Measures the pairs of these targets; only `pairs` of them, if any are named."""
    began, disk = now(), disk_folder()
    chosen = [name for name in pairs_on(targets) if not pairs or name in pairs]
    rows = [
        _pair(name, disk if name in chosen else None, report=report, services=services) for name in pairs_on(TARGETS)
    ]
    return {
        "schema": SCHEMA,
        "verdict": _verdict(rows).value,
        "machine": machine(disk, targets),
        "conditions": {
            "row_bytes": ROW_BYTES,
            "rows_of_a_checkpoint": BULK_ROWS,
            "rows_held": HELD_ROWS,
            "checkpoint_interval_ms": round(1000 * INTERVAL_SECONDS),
        },
        "targets": [{"name": name, "what": what, "measured": name in targets} for name, what in TARGETS.items()],
        "strategies": [{"name": name, "what": way.sentence, "offers": offers(name)} for name, way in WAYS.items()],
        "pairs": rows,
        "invalid": [{**where._asdict(), "why": why} for where, why in WHY_NOT.items()],
        "seconds": round(now() - began, 1),
    }


def _pair(name: str, disk: Path | None, *, report: Report, services: ServiceOptions) -> dict[str, Any]:
    """`disk`: None if it is not measured in this run."""
    wanted = expected(name)
    row: dict[str, Any] = {
        "name": name,
        **cell_of(name)._asdict(),
        "what": EVERY_PAIR[name].sentence,
        "expected": asdict(wanted),
        "measured": None,
        "differences": [],
        "why_not_measured": "",  # although it was chosen
    }
    if disk is None:
        return row
    in_use = ServicesInUse(options=services, report=lambda what: report(name, what))
    try:
        found = measure(name, disk=disk, services=in_use)
    except FAILURES as error:
        row["why_not_measured"] = str(error)
        report(name, f"not measured: {error}")
        return row
    row["measured"], row["differences"] = asdict(found), differences(name, found)
    return row


def _verdict(rows: Sequence[dict[str, Any]]) -> Verdict:
    """VIOLATED: a pair is not as expected. UNKNOWN: a pair could not be measured, or none was chosen."""
    if any(row["differences"] for row in rows):
        return Verdict.VIOLATED
    failed = any(row["why_not_measured"] for row in rows)
    return Verdict.UPHELD if any(row["measured"] for row in rows) and not failed else Verdict.UNKNOWN
