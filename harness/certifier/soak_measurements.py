"""The results of `make soak` as measurements of a certificate. No verdict rests on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sinkproof.canaries.result_cache import fingerprint
from sinkproof.reports.document import DocumentError, Measurement

SCHEMA: Final = "sinkproof/soak/1"
SUMMARY: Final = Path(".sinkproof/soak.json")  # `make soak` writes it


def soak_measurements(path: Path) -> list[Measurement]:
    """Empty if there was no soak. Raises DocumentError for a file that is no summary of a soak."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
        raise _unreadable(path, f"its schema is not {SCHEMA}")
    try:
        return _lines(found, ended=datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from error


def _lines(found: Mapping[str, Any], *, ended: datetime) -> list[Measurement]:
    deaths = sum(found["deaths"].values())
    deaths_by_kind = ", ".join(f"{kind}: {number:,}" for kind, number in found["deaths"].items())
    recovery = found["recovery_ms"]
    mebibytes = "; ".join(
        f"{role} {of['start_bytes'] >> 20:,} → {of['end_bytes'] >> 20:,}" for role, of in found["memory"].items()
    )
    grown = f"grown: {', '.join(found['memory_grown'])}" if found["memory_grown"] else "flat"
    return [
        Measurement(
            name="soak on Spark",
            value=f"{found['hours']:.2f} h, {'every row once' if found['exact'] else 'WRONG'}",
            note="; ".join([*found["wrong"], *(f"left: {each}" for each in found["left"]), _when(found, ended)]),
        ),
        Measurement(name="soak: rows committed", value=f"{found['rows']:,}", note=f"in {found['rounds']} rounds"),
        Measurement(name="soak: deaths", value=f"{deaths:,}", note=deaths_by_kind),
        Measurement(
            name="soak: death to next checkpoint",
            value=f"p50 {recovery['p50']:,.0f} ms",
            note=f"p95 {recovery['p95']:,.0f} ms, longest {recovery['most']:,.0f} ms",
        ),
        Measurement(name="soak: memory", value=grown, note=f"MiB in the first and the last quarter: {mebibytes}"),
    ]


def _when(found: Mapping[str, Any], ended: datetime) -> str:
    same = "this very version" if found["fingerprint"] == fingerprint() else "another version of these sources"
    return f"ended {ended:%Y-%m-%d %H:%M} UTC, by {same}"


def _unreadable(path: Path, evidence: str) -> DocumentError:
    return DocumentError(
        f"{path} is no summary of a soak", evidence=evidence, next_step="Remove it, or let `make soak` write it again"
    )
