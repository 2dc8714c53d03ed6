"""What the watch of system calls adds to a shell's result: which calls were struck, and where the power was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from sinkproof.reports.json_files import Count, promised, says

Texts = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutwardCalls:
    """System calls of a command that change something outside of it, and where faults struck"""

    calls: Annotated[Count, promised("calls of the run without faults")] = 0
    killed: Annotated[Count, promised("calls before which a run was killed")] = 0
    recovery_calls: Annotated[Count, promised("calls that recoveries from these kills make while they open")] = 0
    recovery_killed: Annotated[Count, promised("calls of recoveries before which a run was killed again")] = 0
    names: Annotated[Texts, says("the different names of the calls, as in schedules")] = ()
    struck: Annotated[Mapping[str, Count], says("at how many names each kind of fault struck")] = field(
        default_factory=dict
    )
    left: Annotated[Texts, says("some of the schedules that were to be run, and did not strike")] = ()
    left_total: Annotated[Count, says("how many such schedules there are")] = 0
    unseen: Annotated[Texts, says("why changes may have been missed")] = ()
    elsewhere: Annotated[
        Texts, says("names of files that it changed outside of its folder, where it was struck as well")
    ] = ()
    kept_elsewhere: Annotated[Texts, says("paths of those files that other runs found, or will find")] = ()
    peers: Annotated[Texts, says("addresses to which it connected")] = ()
    unwatched: Annotated[str, says("why no call was watched; empty: they were")] = ""
    native: Annotated[bool, says("they are of a sink in Python, and only those that no line of it explains")] = False
    calls_alike: Annotated[
        Count, says("calls of native code besides, which are the same as others after the same line")
    ] = 0
    native_modules: Annotated[Texts, says("native modules of the sink's own, where no call was watched")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLosses:
    """Losses of power at outward calls and steps, without the contract's help: what was not forced to disk, as system
    calls show it, was put back
    """

    losses: Annotated[Count, promised("schedules")] = 0
    struck: Annotated[Count, promised("of them: those that found their place")] = 0
    took: Annotated[Count, promised("runs in which something that was not forced was gone")] = 0
    kinds: Annotated[Texts, says("orders in which a file system may have written, as kinds of faults")] = ()
    left: Annotated[Texts, says("some of the schedules that did not strike")] = ()
    mapped: Annotated[
        Texts, says("files that were changed through memory, so that it is not known what would survive")
    ] = ()
    unwatched: Annotated[str, says("why no power was lost; empty: it was")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideService:
    """Outward calls of an external system on its data folder, before which it was killed: for each step (a call of the
    sink) those until what it requested is settled, and those of a restart after such a kill
    """

    service: Annotated[str, promised("its title and version; empty: it could not be watched")] = ""
    settings: Annotated[Texts, says("settings of its nodes that differ from those of other campaigns")] = ()
    calls: Annotated[
        Count,
        promised(
            "calls from a request to pre-commit, commit or abort until that is settled, by step, name, occurrence"
        ),
    ] = 0
    killed: Annotated[Count, promised("calls before which the service died")] = 0
    steps: Annotated[Mapping[str, Count], says("how many of these calls each call of the sink leads to")] = field(
        default_factory=dict
    )
    names: Annotated[Texts, says("the different ones, with their step")] = ()
    restart_calls: Annotated[Count, promised("calls of restarts after these deaths, by name and occurrence")] = 0
    restart_killed: Annotated[Count, promised("calls of restarts before which the service died again")] = 0
    restart_names: Annotated[Texts, says("the different ones")] = ()
    background: Annotated[Texts, says("calls that it makes without a request, before which it was not killed")] = ()
    unseen: Annotated[Texts, says("why changes may have been missed")] = ()
    left: Annotated[Texts, says("some of the calls that no later run has met at their place")] = ()
    left_total: Annotated[Count, says("how many such calls there are")] = 0
    not_back: Annotated[Texts, says("where it was killed in some runs after which it did not start again")] = ()
    not_back_total: Annotated[Count, says("how many such runs there are")] = 0
    unwatched: Annotated[str, says("why it was not killed inside; empty: it was")] = ""
