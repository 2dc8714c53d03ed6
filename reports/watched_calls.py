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
    elsewhere: Sequence[str] = ()  # files that it changed outside of its folder, where it was not struck
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
