"""What the watch of system calls adds to a shell's result: which calls were struck, and where the power was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class OutwardCalls:
    """System calls of a command that change something outside of it: of the run without faults, and of its recoveries
    from a kill before each. `names`: the different ones of the former; `struck`: at how many names, by kind of fault.
    `native`: of a sink in Python, and only those that no line of it explains.
    """

    calls: int = 0
    killed: int = 0  # of them: a run died before it
    recovery_calls: int = 0
    recovery_killed: int = 0
    names: Sequence[str] = ()
    struck: Mapping[str, int] = field(default_factory=dict)
    left: Sequence[str] = ()  # some of the schedules that were to be run, and did not strike
    left_total: int = 0
    unseen: Sequence[str] = ()  # why changes may have been missed
    elsewhere: Sequence[str] = ()  # names of files that it changed outside of its folder, where it was struck as well
    kept_elsewhere: Sequence[str] = ()  # paths of them that other runs found, or will find
    peers: Sequence[str] = ()  # addresses to which it connected
    unwatched: str = ""  # why no call was watched
    native: bool = False
    calls_alike: int = 0  # of native code, besides: the same calls after the same line as some that were killed
    native_modules: Sequence[str] = ()  # of the sink's own, where no call was watched


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLosses:
    """Losses of power that needed no help of the contract: what was not forced to disk is known from system calls."""

    losses: int = 0
    struck: int = 0
    took: int = 0  # runs in which something that was not forced was gone
    kinds: Sequence[str] = ()
    left: Sequence[str] = ()  # some that did not strike
    mapped: Sequence[str] = ()  # files that were changed through memory, so that it is not known what would survive
    unwatched: str = ""  # why no power was lost


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
