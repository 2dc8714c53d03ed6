"""The part of the certificate about an external system that was killed between two of its own writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideService:
    """Outward calls of an external system on its data folder, before which it was killed: for each step (a call of the
    sink) those until what it requested is settled, and those of a restart after such a kill.
    """

    service: str = ""  # its title and version
    settings: Sequence[str] = ()  # of its nodes, where they differ from those of other campaigns
    calls: int = 0  # of all steps, by name and occurrence
    killed: int = 0  # of them: the service died before it
    steps: Mapping[str, int] = field(default_factory=dict)  # a call of the sink -> how many of those calls
    names: Sequence[str] = ()  # the different ones
    restart_calls: int = 0
    restart_killed: int = 0
    restart_names: Sequence[str] = ()
    background: Sequence[str] = ()  # what it changes without a request, and where it was not struck
    unseen: Sequence[str] = ()  # why changes may have been missed
    left: Sequence[str] = ()  # some of the calls that were never met again at their place
    left_total: int = 0
    unwatched: str = ""  # why nothing was struck
