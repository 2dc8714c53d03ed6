"""Calls that a target may lack."""

from __future__ import annotations

from typing import Any


def call_if_there(target: object, name: str, *arguments: Any) -> Any:
    call = getattr(target, name, None)
    return None if call is None else call(*arguments)
