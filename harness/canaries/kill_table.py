"""The kill table as text: a line for each canary and shell, grouped by root cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sinkproof.canaries.catalogue import ROOT_CAUSES

Row = Mapping[str, Any]  # a CanaryResult in plain JSON


def render(rows: Sequence[Row]) -> str:
    return "\n".join(_lines(rows))


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    canaries = [row for row in rows if not row["control"]]
    controls = [row for row in rows if row["control"]]
    width = max((len(row["name"]) for row in rows), default=0)
    for cause, group in groupby(sorted(canaries, key=_place), key=lambda row: row["root_cause"]):
        yield f"{cause}: {ROOT_CAUSES[cause]}"
        yield from (_line(row, width=width) for row in group)
    if controls:
        yield "Controls: nothing is wrong with them"
        yield from (_line(row, width=width) for row in sorted(controls, key=lambda row: row["shell"]))
    convicted, acquitted = sum(row["convicted"] for row in canaries), sum(not row["convicted"] for row in controls)
    seconds = sum(row["seconds"] for row in canaries)
    yield (
        f"{convicted} of {len(canaries)} canaries convicted of their own sin in {seconds:.1f} s, "
        f"{acquitted} of {len(controls)} controls acquitted"
    )


def _place(row: Row) -> tuple[int, str, str]:
    return int(row["root_cause"][1:]), row["name"], row["shell"]


def _line(row: Row, *, width: int) -> str:
    how = row["oracle"] if row["convicted"] else "acquitted" if row["control"] else "ESCAPED"
    if row["convicted"] and row["control"]:
        how = f"CONVICTED {how or ''}".strip()
    shown = row["schedule"] if row["convicted"] else "" if row["control"] else row["why"]
    line = f"  {row['name']:{width}}  {row['shell']:9}  {how:9}  {row['seconds']:6.2f} s  {shown or ''}"
    return line.rstrip()
