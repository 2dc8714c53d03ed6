"""A mutant: the package with one line changed, and the certifications that must notice it."""

from __future__ import annotations

from dataclasses import dataclass

TWO_PHASE = ("memory/two-phase",)
EVERY_STRATEGY = ("memory/two-phase", "memory/write-ahead-upsert", "memory/masked", "memory/idempotent")


@dataclass(frozen=True)
class Mutant:
    """`subjects`: the certification of these pairs must notice it."""

    name: str
    file: str
    old: str
    new: str
    subjects: tuple[str, ...] = TWO_PHASE
    shell: str = "simulated"


def mutant(name: str, file: str, old: str, *, new: str, subjects: tuple[str, ...] = TWO_PHASE) -> Mutant:
    return Mutant(name, file, old, new, subjects)
