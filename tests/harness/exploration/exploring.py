"""Exploring to the end, without a budget."""

from __future__ import annotations

from typing import Any

from sinkproof.chaos.crash_closure import ExploredClosure, Explorer
from sinkproof.exploration.job_world import JobWorld

Found = ExploredClosure[Any]


def explore(world: Any, **options: Any) -> Found:
    return Explorer(world, go_on=lambda closure: True, **options).explore()


def closing(world: JobWorld, *, keep: Any = lambda found: None, go_on: Any = lambda: True, **options: Any) -> Found:
    found: Found = Explorer(world, go_on=lambda closure: go_on(), **options).explore()
    keep(found)
    return found
