"""What the engine gives to an attempt of a sink: a context that makes on demand what few sinks use."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from sinkproof.sink_adapters.protocol import Context

NOT_MADE: Final = Random(0)


class AttemptContext(Context):
    """Its random generator is seeded when the sink uses it: that takes 15 us, and few sinks do."""

    __slots__ = ("_made",)

    def __init__(self, *, random_made: Callable[[], Random], **fields: Any) -> None:
        super().__init__(random=NOT_MADE, **fields)
        object.__setattr__(self, "_made", random_made)
        object.__delattr__(self, "random")  # __getattr__ is called for what is missing

    def __getattr__(self, name: str) -> Any:
        if name != "random":
            raise AttributeError(name)
        object.__setattr__(self, name, self._made())
        return self.random
