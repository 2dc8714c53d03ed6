"""What kind of bug a finding shows, how it is usually repaired, and which canaries have the same one.

A cause is *likely*: the one that most canaries have which the same fault convicts by the same oracle. Where the step at
which rows are lost or duplicated tells more than that, it decides, and may leave two causes.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff
from textwrap import dedent, indent
from typing import Any, Final, NamedTuple

from sinkproof.canaries.catalogue import CANARIES, ROOT_CAUSES, Canary
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.chaos.services.inside_run import is_inside_service
from sinkproof.reports.document import Finding
from sinkproof.reports.report_facts import TORN_CHECKPOINT
from sinkproof.workload.job_names import (
    DOZENS_OF_CHECKPOINTS_JOB,
    EDGE_CASE_VALUES_JOB,
    EQUAL_ROWS_JOB,
    FAR_LARGER_DATA_JOB,
    HUNDREDS_OF_CHECKPOINTS_JOB,
    IDLE_CLOSED_JOB,
    IN_CONTAINERS_JOB,
    LARGE_BATCHES_JOB,
    LARGE_OFFSETS_JOB,
    LONG_WAITS_JOB,
    MANY_CHUNKS_JOB,
    NULL_CHARACTERS_JOB,
    ONE_LARGE_CHECKPOINT_JOB,
    ORPHANS_JOB,
    OTHER_HOSTS_JOB,
    OUTAGE_JOB,
    PIECES_JOB,
    RESCALED_JOBS,
    SHARED_KEYS_JOB,
    SKIPPED_IDS_JOB,
    TOGETHER,
    TWELVE_OF_BOTH_JOB,
    TWELVE_SINKS_JOB,
    UNEVENLY_RESCALED_JOBS,
    UNUSED_CLOSED_JOB,
    WALL_CLOCK_JOBS,
    ZOMBIE_VERY_LATE_JOB,
)
from sinkproof.workload.made_jobs import APART, EXACTLY, SPLITS, SUBTASKS, TWELVE_TIMES


class Repair(NamedTuple):
    row: str  # of the semantics, which demonstrates it
    how: str


REPAIRS: Final = {
    "R1": Repair("S20", "make rows and marker one step: one transaction, or a file with the marker as its name"),
    "R2": Repair("S19", "make names of what is the same in every attempt, and differs elsewhere: subtask, checkpoint"),
    "R3": Repair("S20", "skip exactly what is recorded as done, one by one; a largest id says nothing of those below"),
    "R4": Repair("S06", "flush, and wait for every reply, before `snapshot` returns, to where every host sees it"),
    "R5": Repair("S18", "show rows in `notify_complete` and in `open` only: a snapshot is a vote, not a decision"),
    "R6": Repair("S21", "let errors of a commit out, or return the id as unsettled; forget it on success only"),
    "R7": Repair("S21", "after an error look what is there, and repeat the same step under the same name"),
    "R8": Repair("S23", "keep in the handle what names this very transaction: id and epoch, not a slot in a pool"),
    "R9": Repair("S21", "keep the target's limits longer than any outage, and raise TransactionLost beyond them"),
    "R10": Repair(
        "S22",
        "fence earlier generations in `open`, and check that in one step with the commit; or publish under a name that "
        "is always the same",
    ),
    "R11": Repair("S22", "remove in `open` what earlier generations left; let commits repeat"),
    "R12": Repair("S18", "keep rows by checkpoint id; a completion covers all earlier ids, an abort covers none"),
    "R13": Repair("S21", "list in the snapshot every transaction that is open, and record each by itself"),
    "R14": Repair("S11", "restore every entry of `context.restored`, whichever subtask it came from"),
    "R15": Repair("S22", "remove only what no checkpoint covers and no other subtask owns, after commits"),
    "R16": Repair("S22", "force the file, and then its folder, to disk before the vote"),
    "R17": Repair("S19", "derive keys from split and offset; a batch has other bounds when it is replayed"),
    "R18": Repair("S24", "use writes of the target that may be repeated: not counters, lists, or times of a clock"),
    "R19": Repair("S26", "write and restore rows in full, and compare them with what was sent"),
}

# A request is often sent in two calls: that is no matter for a target that knows where it ends.
SENT_IN_PART: Final = re.compile(r"syscall\((?:write|writev|sendto|sendmsg) socket\)")
DIES_WHILE_SENDING: Final = frozenset({"kill", "kill-job", "short-write"})
HALF_A_REQUEST: Final = (
    "the target may accept a request of which only a part has arrived, since its sender has died: see whether it "
    "compares what it has read with the length that was announced"
)
RESTORED: Final = "R14"
SHOWN_BY_JOB: Final = {  # whatever the fault
    IN_CONTAINERS_JOB: "R2",
    OTHER_HOSTS_JOB: "R4",
    **dict.fromkeys((*RESCALED_JOBS, *UNEVENLY_RESCALED_JOBS), RESTORED),
}
LEFT_BEHIND: Final = "O7"
SEEN_IN_PART: Final = (
    "each subtask publishes by itself, one after the other: publish a checkpoint in one step, when all have "
    "pre-committed, and not subtask by subtask"
)
PROGRAM_OUTLIVES: Final = (
    "a program that the sink has started outlives it, and takes the end of its input for the end of the rows: let the "
    "sink itself publish what the program has made"
)
KEPT_FOR_SOME_ATTEMPTS: Final = (
    "what was kept, or tried, for a few attempts is given up: a job may die more often, and its rows are restored each "
    "time"
)
LOOP: Final = 6 * ("kill-job",)
LOSS_OR_DUPLICATES: Final = frozenset({"O1", "O2", "O10"})
# All votes have arrived, and no sink has begun to commit: what a dead attempt knew is in its state, or it is lost.
BETWEEN_VOTE_AND_COMMIT: Final = frozenset({"checkpoint.persist.after", "notify_complete.before"})
UNNOTIFIED: Final = ("checkpoint.notify", "lose")
DEATHS: Final = frozenset({"kill", "kill-job"})
NUMBERS_AS_TEXTS: Final = (
    "a number is taken for a text: a pattern or a prefix for subtask 1 also fits 10 and 11, as text 10 comes before 9, "
    "without a sign between them 1 and 10 are written like 11 and 0; or two numbers are made one that is too small"
)
ALIKE: Final = (
    "keys or values are not kept as they are: quotes, separators, line ends, an encoding, a name that is made of a key"
)
DATES: Final = "a date or a time of the wall clock is a part of a name, or decides what is newer or too old"
FORGOTTEN: Final = (
    "what is committed is remembered for fewer checkpoints or rows than pass before a zombie, or a late message, comes"
)
MUCH_DATA: Final = (
    "there are more rows at a time than usual: a second part, chunk or page replaces the first, or is left out"
)
MADE_ONE: Final = (
    "a number is made of two, or cut: offsets are larger than the factor between them, so that another row has it; "
    "keep both apart"
)
LAST_IS_FULL: Final = (
    "there are exactly as many rows as a number in the code says: where it is the size of a part, the last part is "
    "full, and an empty one may follow"
)
WAITED_IN_VAIN: Final = (
    "an attempt that waits for a lock, or a reply, or tries a call again, goes on as if it had done its part when its "
    "time limit is over, or takes the lock by force; see what its code does with that error"
)
LONG_LIST: Final = "a list of what is there is longer than a page: read all of them, or ask for the one name"
READ_ONCE: Final = "what one read of a connection brings is taken for a whole reply, which may come in pieces"
GIVEN_UP: Final = "a request that was refused each time is given up without an error after some tries"
LOST_SESSION: Final = (
    "what an error has ended is gone when the sink goes on: a lock, or a session of the server; take it again, and "
    "look again for what is committed"
)
TOO_SMALL: Final = "an offset is kept as a number that is too small for it, or not exact: of 32 bits, or floating"
UNFENCED, FENCED = "R10", "raised: Fenced"  # the cause, and what a timeline says of an attempt that was refused
SITUATIONS: Final = {
    **dict.fromkeys((TWELVE_SINKS_JOB, TWELVE_OF_BOTH_JOB, MANY_CHUNKS_JOB), NUMBERS_AS_TEXTS),
    DOZENS_OF_CHECKPOINTS_JOB: LONG_LIST,
    LONG_WAITS_JOB: WAITED_IN_VAIN,
    **dict.fromkeys((ZOMBIE_VERY_LATE_JOB, HUNDREDS_OF_CHECKPOINTS_JOB), FORGOTTEN),
    **dict.fromkeys(WALL_CLOCK_JOBS, DATES),
    **dict.fromkeys((EDGE_CASE_VALUES_JOB, NULL_CHARACTERS_JOB), ALIKE),
    PIECES_JOB: READ_ONCE,
    ORPHANS_JOB: PROGRAM_OUTLIVES,
    **dict.fromkeys((IDLE_CLOSED_JOB, UNUSED_CLOSED_JOB), LOST_SESSION),
    LARGE_OFFSETS_JOB: TOO_SMALL,
    SKIPPED_IDS_JOB: (
        "ids of checkpoints are cut, packed with the number of a subtask, or padded, and a job that runs for long has "
        "larger ones"
    ),
    SHARED_KEYS_JOB: "a key alone is taken for the identity of a row, and both splits have it",
    EQUAL_ROWS_JOB: "rows that differ in nothing but their offsets are taken for one",
}

SENT_AGAIN: Final = (
    "a request is sent again after {}, though it may have been carried out: let the target recognize the second one"
)
SHOWN_BY_FAULTS: Final[Mapping[tuple[str, ...], str]] = {  # kinds of the last ones
    ("stop", "pause"): (
        "what a successor reads is changed by its predecessor before that is fenced: fence first, then read what is "
        "committed"
    ),
    ("pause", "pause"): (
        "two subtasks change one thing at the same time: see whether a lock excludes the other, also where its file is "
        "replaced, and whether what is read and written back is one step"
    ),
    **dict.fromkeys((("error", "stop"), ("unanswered", "stop")), LOST_SESSION),
    LOOP: KEPT_FOR_SOME_ATTEMPTS,
    **dict.fromkeys((("unavailable", "unavailable"), ("throttled", "throttled")), GIVEN_UP),
    ("overlap",): (
        "the server looks for what is there, and then writes: two equal requests at once find nothing, even if each is "
        "one statement; let a unique key, a lock or a compare-and-set decide"
    ),
    ("meet",): (
        "the server reads what two subtasks change, and writes it back later: what one of them has changed is lost; "
        "make both one step"
    ),
    ("kill-halfway",): HALF_A_REQUEST,
    ("silent",): (
        "a request is sent again, or given up, when its time is over, though it may have been carried out: let the "
        "target recognize the second one"
    ),
    ("black-hole",): "a request is taken for done when its time is over, though it was lost: fail then",
    ("lock-timeout",): (
        "after an error of a statement the transaction is begun anew, and not rolled back before: what it has done so "
        "far is committed, or the rest is left out"
    ),
    ("refused-statement",): (
        "an error of one statement is passed over, or only this statement is sent again: nothing of its transaction is "
        "left then (PostgreSQL, MariaDB), or the other commands of its request were carried out (Redis). Of a service "
        "of HTTP the status 503 is overlooked"
    ),
    ("closed",): "the end of a connection is taken for a reply: an empty read says nothing of what was done",
    ("throttled",): "a reply with the status 429 is overlooked, or mistaken: its request was not carried out",
    ("gateway-timeout",): SENT_AGAIN.format("a reply with the status 504"),
    ("bad-gateway",): SENT_AGAIN.format("a reply with the status 502"),
    ("reply-cut",): "what has come of a reply is taken for all of it: compare it with the length that its head says",
    ("request-delayed",): (
        "a request that was given up, and sent again, arrives after later ones, and the target takes it: let it refuse "
        "what is older than what it has, by a version or a condition"
    ),
    ("items-rejected",): "a reply of a bulk request has the status 200, and what it says of each item is overlooked",
    ("some-rejected",): "of a bulk request some items were rejected: the reply says which, and others are sent again",
    ("late-reply",): (
        "a connection goes on after a timeout, and the reply that comes late is taken for that of the next request: "
        "close it then"
    ),
    ("unavailable",): "a reply with the status 503 is overlooked, or mistaken: its request was not carried out",
}


def with_likely_cause(finding: Finding) -> Finding:
    """As it is if no canary looks like it, no request was cut off, and its job shows no special situation."""
    if not finding.claimed:
        return finding
    schedule = parse(finding.schedule, kinds=frozenset(KINDS))
    causes = [HALF_A_REQUEST] if _cuts_a_request(schedule) else []
    if situation := _situation(finding.oracle, schedule):
        causes.insert(0, situation)
    else:
        is_fenced = any(FENCED in event.what for event in finding.timeline)
        codes = _likely(finding.oracle, schedule)
        causes[:0] = [_with_repair(code) for code in codes if not (code == UNFENCED and is_fenced)]
    return replace(finding, root_cause=". Or ".join(causes)) if causes else finding


def _situation(oracle: str, schedule: Schedule) -> str | None:
    """Stages with the standard job come first: what is found in another one is seldom shown by the fault alone."""
    if oracle == TORN_CHECKPOINT and not schedule.faults:
        return SEEN_IN_PART
    if schedule.job.startswith(APART):
        return MADE_ONE
    if schedule.ids or schedule.job.startswith((TWELVE_TIMES, SUBTASKS, SPLITS)):
        return NUMBERS_AS_TEXTS
    if schedule.job.startswith(EXACTLY):
        return LAST_IS_FULL
    kinds = tuple(fault.kind for fault in schedule.faults)
    if shown := next((text for last, text in SHOWN_BY_FAULTS.items() if kinds[-len(last) :] == last), None):
        return shown
    jobs = schedule.job.split(TOGETHER)
    if not schedule.faults and not {LARGE_BATCHES_JOB, FAR_LARGER_DATA_JOB, ONE_LARGE_CHECKPOINT_JOB}.isdisjoint(jobs):
        return MUCH_DATA
    return next((SITUATIONS[job] for job in jobs if job in SITUATIONS), None)


def _cuts_a_request(schedule: Schedule) -> bool:
    return any(fault.kind in DIES_WHILE_SENDING and SENT_IN_PART.fullmatch(fault.point) for fault in schedule.faults)


def _with_repair(code: str) -> str:
    return f"{code}: {ROOT_CAUSES[code]}. Usual repair: {REPAIRS[code].how}. See: sinkproof explain {code}"


def _likely(oracle: str, schedule: Schedule) -> Sequence[str]:
    """Codes, the likeliest first."""
    if any(map(is_inside_service, schedule.faults)):
        return ()  # the sink may be right
    for job in SHOWN_BY_JOB.keys() & {*schedule.job.split(TOGETHER)}:
        if SHOWN_BY_JOB[job] != RESTORED or _shows_a_restore(oracle, schedule):
            return (SHOWN_BY_JOB[job],)
    if [fault.kind for fault in schedule.faults] == ["stop", "error"]:
        return ("R10",)  # the connection of a zombie was reset
    if schedule.faults and schedule.faults[-1].kind == "unanswered":
        return ("R7",)
    if oracle in LOSS_OR_DUPLICATES and (found := _shown_by_step(oracle, schedule)):
        return found
    alike = Counter(each.root_cause for each in CANARIES if _looks_like(each, oracle, schedule))
    return [code for code, _ in alike.most_common(1)]


def _shows_a_restore(oracle: str, schedule: Schedule) -> bool:
    """Not what is left behind, nor what pauses alone have done."""
    only_pauses = bool(schedule.faults) and all(fault.kind == "pause" for fault in schedule.faults)
    return oracle != LEFT_BEHIND and not only_pauses


def _shown_by_step(oracle: str, schedule: Schedule) -> Sequence[str]:
    """What the step of the last fault tells of rows that are lost or duplicated."""
    if not schedule.faults:
        return ("R2", "R18") if oracle != "O2" else ()
    if OUTAGE_JOB in schedule.job.split(TOGETHER):
        return ("R9",) if oracle == "O2" else ("R9", "R6")
    if any(fault.kind == "decline" or (fault.point, fault.kind) == UNNOTIFIED for fault in schedule.faults):
        return ("R12",)
    last = schedule.faults[-1]
    if last.kind not in DEATHS or last.point not in BETWEEN_VOTE_AND_COMMIT:
        return ()
    if oracle == "O2":
        return "R2", "R17"
    return "R4", "R14", "R15"


def _looks_like(canary: Canary, oracle: str, schedule: Schedule) -> bool:
    kind = schedule.faults[-1].kind if schedule.faults else ""
    return oracle in canary.oracles and kind in canary.faults


def explained(code: str) -> str:
    """What kind of bug it is, the usual repair, and each canary beside its right sibling."""
    lines = [f"{code}: {ROOT_CAUSES[code]}", f"usual repair: {REPAIRS[code].how}"]
    lines += [f"demonstrated by: sinkproof explain {REPAIRS[code].row}", ""]
    for canary in (each for each in CANARIES if each.root_cause == code):
        lines += [f"canary {canary.name!r}: {inspect.getdoc(canary.contract)}"]
        lines += [indent(_beside_its_control(canary), "  ")]
    return "\n".join(lines)


def _beside_its_control(canary: Canary) -> str:
    """Lines that begin with `-` are right, those that begin with `+` are the canary's."""
    return "\n".join(
        line
        for wrong, right in _replaced(canary.contract)
        for line in unified_diff(_source(right), _source(wrong), "right", "wrong", lineterm="", n=2)
    )


def _replaced(contract: type) -> Iterator[tuple[Any, Any]]:
    """(function of the canary, the one that it replaces)."""
    wrong = {made for canary in CANARIES for made in (canary.contract, vars(canary.contract).get("make"))}
    for made in filter(inspect.isclass, (contract, vars(contract).get("make"))):
        for name, function in filter(lambda member: inspect.isfunction(member[1]), vars(made).items()):
            bases = [vars(base) for base in made.__mro__[1:] if base not in wrong]
            yield function, next((members[name] for members in bases if name in members), None)


def _source(function: Any) -> list[str]:
    return dedent(inspect.getsource(function)).splitlines() if inspect.isfunction(function) else []
