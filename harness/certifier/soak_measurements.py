"""The results of `make soak` as measurements of a certificate. No verdict rests on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sinkproof.certifier.circumstances import fingerprint
from sinkproof.reports.document import DocumentError, Measurement

SCHEMA: Final = "sinkproof/soak/1"
SUMMARY: Final = Path(".sinkproof/soak.json")  # `make soak` writes it


def soak_measurements(path: Path) -> list[Measurement]:
    """Empty if there was no soak. Raises DocumentError for a file that is no summary of a soak."""
    try:
        found = json.loads(path.read_text("utf-8"))
        if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        lines = _lines(found, ended=datetime.fromtimestamp(path.stat().st_mtime, UTC))
        return [Measurement(name=name, value=value, note=note) for name, value, note in lines]
    except FileNotFoundError:
        return []
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DocumentError(
            f"{path} is no summary of a soak",
            evidence=f"{type(error).__name__}: {error}",
            next_step="Remove it, or let `make soak` write it again",
        ) from error


def _lines(found: Mapping[str, Any], *, ended: datetime) -> list[tuple[str, str, str]]:
    """(name, value, note)"""
    deaths = ", ".join(f"{kind}: {number:,}" for kind, number in found["deaths"].items())
    recovery = found["recovery_ms"]
    mebibytes = "; ".join(
        f"{role} {of['start_bytes'] >> 20:,} → {of['end_bytes'] >> 20:,}" for role, of in found["memory"].items()
    )
    grown = f"grown: {', '.join(found['memory_grown'])}" if found["memory_grown"] else "flat"
    rest = f"p95 {recovery['p95']:,.0f} ms, longest {recovery['most']:,.0f} ms"
    problems = [*found["wrong"], *(f"left: {each}" for each in found["left"])]
    result = f"{found['hours']:.2f} h, {'every row once' if found['exact'] else 'WRONG'}"
    return [
        ("soak on Spark", result, "; ".join([*problems, _when(found, ended)])),
        ("soak: rows committed", f"{found['rows']:,}", f"in {found['rounds']} rounds"),
        ("soak: deaths", f"{sum(found['deaths'].values()):,}", deaths),
        ("soak: death to next checkpoint", f"p50 {recovery['p50']:,.0f} ms", rest),
        ("soak: memory", grown, f"MiB in the first and the last quarter: {mebibytes}"),
    ]


def _when(found: Mapping[str, Any], ended: datetime) -> str:
    same = "this very version" if found["fingerprint"] == fingerprint() else "another version of these sources"
    return f"ended {ended:%Y-%m-%d %H:%M} UTC, by {same}"
