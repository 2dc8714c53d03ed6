"""A window around each call of a sink in another process: what its external system does meanwhile belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

Window = Callable[[str], AbstractContextManager[None]]


def no_window(call: str) -> AbstractContextManager[None]:
    return nullcontext()


def within_window(call: Callable[..., Any]) -> Callable[..., Any]:
    """A method that makes one call of the sink protocol, within the window that the host opens for it."""

    @wraps(call)
    def in_window(attempt: Any, name: str, *arguments: Any, **more: Any) -> Any:
        with attempt.host.window(name):
            return call(attempt, name, *arguments, **more)

    return in_window
