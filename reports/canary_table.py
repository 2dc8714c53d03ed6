"""The kill table: each canary once, its shells side by side, grouped by root cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.document import Document

NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRow:
    """`oracle`, `schedule`: of the first shell that convicted it. `why`: set where the canary escaped or the control
    was convicted.
    """

    name: str
    oracle: str
    schedule: str
    why: str
    outcomes: tuple[Document | None, ...]  # one per shell


@dataclass(frozen=True, slots=True, kw_only=True)
class KillTable:
    shells: tuple[str, ...]
    causes: tuple[tuple[str, tuple[CanaryRow, ...]], ...]  # (root cause, its canaries), R2 before R10
    controls: tuple[CanaryRow, ...]


def kill_table(document: Document) -> KillTable:
    canaries = document["canaries"]
    shells = tuple(dict.fromkeys(canary["shell"] or "" for canary in canaries))
    causes: dict[str, dict[str, list[Document]]] = {}
    for canary in canaries:
        cause = "" if canary["control"] else canary["root_cause"]
        causes.setdefault(cause, {}).setdefault(canary["name"], []).append(canary)
    tables = {cause: tuple(_row(tries, shells) for tries in names.values()) for cause, names in causes.items()}
    controls = tables.pop("", ())
    return KillTable(
        shells=shells,
        causes=tuple((cause, tables[cause]) for cause in sorted(tables, key=_place)),
        controls=controls,
    )


def _row(tries: Sequence[Document], shells: Sequence[str]) -> CanaryRow:
    by_shell = {canary["shell"] or "": canary for canary in tries}
    shown = next((canary for canary in tries if canary["convicted"]), tries[0])
    wrong = next((canary for canary in tries if not facts.canary_is_right(canary)), None)
    return CanaryRow(
        name=shown["name"],
        oracle=shown["oracle"] or "",
        schedule=shown["schedule"] or "",
        why=wrong["why"] if wrong else "",
        outcomes=tuple(map(by_shell.get, shells)),
    )


def _place(cause: str) -> tuple[int, str]:
    number = NUMBER.search(cause)
    return (int(number[0]) if number else 1000, cause)
