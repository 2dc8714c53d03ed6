"""Outward calls that are struck in another way than by a death or an error before them: those of a commit are carried
out after their attempt was replaced, together with the same ones of its successor or with those of another subtask, or
in part.

Of a run with executed lines and system calls in its trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from sinkproof.chaos.faults.kill_halfway import KILL_HALFWAY
from sinkproof.chaos.faults.land_late_write import LAND
from sinkproof.chaos.faults.lock_timeout import LOCK_TIMEOUT
from sinkproof.chaos.faults.meet_requests import MEET
from sinkproof.chaos.faults.overlap_requests import OVERLAP, is_request
from sinkproof.chaos.points import is_system_call
from sinkproof.chaos.schedule import Fault, Schedule
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.fault_sites import evenly, in_turn, passes
from sinkproof.generators.interleavings import FIRST_SINK
from sinkproof.generators.native_calls import refused_statements, short_writes
from sinkproof.subject.static_analysis.names_in_code import has_name

REQUESTS_MOST: Final = 24
TIMEOUTS_MOST: Final = 12
SQL_CLIENTS: Final = (
    *("psycopg", "psycopg2", "asyncpg", "pg8000", "pymysql", "MySQLdb", "mysql", "mariadb", "aiomysql", "asyncmy"),
    *("sqlalchemy", "create_engine"),
)


def struck_late(
    recorded: RunResult, restored: RunResult, *, idle: RunResult, files: Collection[str] = ()
) -> list[Schedule]:
    """`recorded`: a run without faults. `restored`: one with a death after the first commit. `idle`: one in which the
    subtasks commit, and do nothing else then.
    """
    refused = (*refused_statements(recorded), *refused_statements(restored, usual=recorded))
    if has_name(files, *SQL_CLIENTS):
        refused = (*refused, *map(_by_a_lock, refused_statements(recorded, most=TIMEOUTS_MOST)))
    late = (*of_commits(recorded), *of_recoveries(restored, recorded))
    return [*short_writes(recorded), *late, *requests_of_commits(recorded), *meeting_requests(idle), *refused]


def _by_a_lock(schedule: Schedule) -> Schedule:
    *before, refused = schedule.faults
    return replace(schedule, faults=(*before, replace(refused, kind=LOCK_TIMEOUT.word)))


def of_commits(result: RunResult) -> list[Schedule]:
    """Of each call that a commit makes after a line, the first one: carried out when its attempt has been replaced, and
    the last thing that this attempt does. A zombie would go on, and put right what it has broken.
    """
    return [Schedule((fault,)) for fault in _late_calls(result, "notify_complete").values()]


def of_recoveries(recovery: RunResult, usual: RunResult) -> list[Schedule]:
    """The same where a restored sink commits again what is there, which `open` does not do in a usual run."""
    known = _late_calls(usual, "open")
    found = [fault for call, fault in _late_calls(recovery, "open").items() if call not in known]
    return [replace(recovery.schedule, faults=(*recovery.schedule.faults, fault)) for fault in found]


def requests_of_commits(result: RunResult) -> list[Schedule]:
    """At which a death leaves half of the request, and which overlap with those of a successor."""
    kinds = (OVERLAP.word, KILL_HALFWAY.word)
    return [Schedule((replace(fault, kind=kind),)) for fault in _some_of_each_line(result) for kind in kinds]


def meeting_requests(idle: RunResult) -> list[Schedule]:
    """Of the subtask that commits first, while the other one has its commit before it."""
    chosen = _some_of_each_line(idle)
    faults = (replace(fault, kind=MEET.word) for fault in chosen if fault.actor == FIRST_SINK)
    return [replace(idle.schedule, faults=(fault,)) for fault in faults]


def _some_of_each_line(result: RunResult) -> list[Fault]:
    """Of the requests that commits send: the first two, as a head and its body, and two of the others, as requests need
    not meet in the server each time.
    """
    found: dict[tuple[str, str, bool], list[Fault]] = {}
    for call, fault in _calls_within(result, "notify_complete"):
        if is_request(fault.actor, fault.point):
            found.setdefault((*call, fault.actor == FIRST_SINK), []).append(fault)
    return [*in_turn((*faults[:2], *evenly(faults[2:], 2)) for faults in found.values())][:REQUESTS_MOST]


def _late_calls(result: RunResult, call: str) -> dict[tuple[str, str], Fault]:
    """The first one of each line and name."""
    found: dict[tuple[str, str], Fault] = {}
    for place, fault in _calls_within(result, call):
        found.setdefault(place, fault)
    return found


def _calls_within(result: RunResult, call: str) -> Iterator[tuple[tuple[str, str], Fault]]:
    """Outward calls within this call of the sink: (line, name), and the call that lands late."""
    line: dict[str, str] = {}  # of an actor that is in its call
    for actor, point, occurrence in passes(result):
        if point == f"{call}.before":
            line[actor] = ""
        elif point == f"{call}.after":
            line.pop(actor, None)
        elif is_system_call(point) and actor in line:
            yield (line[actor], point), Fault(actor, point, occurrence, LAND.word)
        elif actor in line:
            line[actor] = point
