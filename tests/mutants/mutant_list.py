"""All mutants; some of them are tried on Spark, too."""

from __future__ import annotations

from dataclasses import replace

from mutant import Mutant
from mutants_of_core import ENGINE
from mutants_of_sinks import STRATEGIES, TARGETS

TRIED_ON_SPARK = (
    "completion is notified before the decision is durable",
    "two-phase: no re-commit on restore",
    "two-phase: no fence",
)
SPARK = tuple(
    replace(each, name=f"on Spark: {each.name}", subjects=("files/two-phase",), shell="spark")
    for each in ENGINE + STRATEGIES
    if each.name in TRIED_ON_SPARK
)

MUTANTS: tuple[Mutant, ...] = ENGINE + STRATEGIES + TARGETS + SPARK
