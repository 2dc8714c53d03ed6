"""What other installed packages register by entry points: sinks, faults and services."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

SINKS: Final = "sinkproof.sinks"
FAULTS: Final = "sinkproof.faults"
SERVICES: Final = "sinkproof.services"
Registered = TypeVar("Registered")


class RegistrationError(Exception):
    """A package registers what cannot be used; the message names it, and the next step."""


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """By name, without loading anything."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise _error(entry, f"{package_of(other)} registers {entry.name!r}, too")
    return found


def package_of(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def load_registered(group: str, kind: type[Registered], *, name_in: str, taken: Collection[str]) -> list[Registered]:
    """What the packages register there, loaded. `name_in`: the attribute that must equal the entry's name."""
    loaded = []
    for name, entry in registered(group).items():
        if name in taken:
            raise _error(entry, f"{name!r} is a name of sinkproof itself")
        try:
            value: Any = entry.load()
        except Exception as error:  # the border to the other package's module
            raise _error(entry, f"{type(error).__name__}: {error}") from error
        if not isinstance(value, kind) or getattr(value, name_in) != name:
            raise _error(entry, f"it is no {kind.__name__} with {name_in} = {name!r}")
        loaded.append(value)
    return loaded


def _error(entry: EntryPoint, evidence: str) -> RegistrationError:
    return RegistrationError(
        f"{package_of(entry)} registers {entry.name} = {entry.value} in {entry.group}, which cannot be used: "
        f"{evidence}. Correct or uninstall that package"
    )
