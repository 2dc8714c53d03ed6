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
_errors: list[RegistrationError] = []


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


def packages() -> list[str]:
    """Those that register anything."""
    return sorted({package_of(entry) for group in (SINKS, FAULTS, SERVICES) for entry in registered(group).values()})


def load_registered(group: str, kind: type[Registered], *, name_in: str, taken: Collection[str]) -> list[Registered]:
    """What the packages register there, loaded. `name_in`: the attribute that must equal the entry's name. Modules call
    it while they are imported, where no error can be told: `refuse_what_cannot_be_used` raises it.
    """
    loaded = []
    try:
        for name, entry in registered(group).items():
            if name in taken:
                raise _error(entry, f"{name!r} is a name of sinkproof itself")
            loaded.append(_loaded(entry, kind, name_in))
    except RegistrationError as error:
        _errors.append(error)
    return loaded


def _loaded(entry: EntryPoint, kind: type[Registered], name_in: str) -> Registered:
    try:
        value: Any = entry.load()
    except Exception as error:  # the border to the other package's module
        raise _error(entry, f"{type(error).__name__}: {error}") from error
    if not isinstance(value, kind) or getattr(value, name_in) != entry.name:
        raise _error(entry, f"it is no {kind.__name__} with {name_in} = {entry.name!r}")
    return value


def refuse_what_cannot_be_used() -> None:
    """Raises the first RegistrationError: nothing is certified with less than what is installed."""
    if _errors:
        raise _errors[0]


def _error(entry: EntryPoint, evidence: str) -> RegistrationError:
    return RegistrationError(
        f"{package_of(entry)} registers {entry.name} = {entry.value} in {entry.group}, which cannot be used: "
        f"{evidence}. Correct or uninstall that package"
    )
