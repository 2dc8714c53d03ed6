"""A finding names its likely root cause, the usual repair, and canaries with the same sin beside right siblings."""

from __future__ import annotations

import pytest

from sinkproof.canaries.catalogue import CANARIES, ROOT_CAUSES
from sinkproof.certifier.root_causes import (
    ALIKE,
    DATES,
    FORGOTTEN,
    GIVEN_UP,
    HALF_A_REQUEST,
    KEPT_FOR_SOME_ATTEMPTS,
    LAST_IS_FULL,
    LOST_SESSION,
    MADE_ONE,
    MUCH_DATA,
    NUMBERS_AS_TEXTS,
    PROGRAM_OUTLIVES,
    READ_ONCE,
    REPAIRS,
    SEEN_IN_PART,
    SHOWN_BY_FAULTS,
    SITUATIONS,
    TOO_SMALL,
    explained,
    with_likely_cause,
)
from sinkproof.explain.semantics_rows import ROWS
from sinkproof.reports.document import Finding, TimelineEvent

REFUSED = "sink[0].socket.send"


def test_every_root_cause_has_a_repair_and_a_demonstration() -> None:
    assert set(ROOT_CAUSES) == set(REPAIRS)
    assert set() == {repair.row for repair in REPAIRS.values()} - set(ROWS)


@pytest.mark.parametrize(
    ("oracle", "schedule", "code"),
    [
        ("O2", "sink[0].line(my_sink.py:7)#1=kill-job", "R1"),
        ("O9", "sink[0].write.after#1=stop", "R10"),
        ("O3", "no-fault", "R5"),
        ("O12", "sink[0].open.after#1=kill", "R19"),
        ("O8", "sink[0].open.after#1=lose-power", "R16"),
        ("O1", "job=other-hosts checkpoint.persist.after#1=kill-job", "R4"),
        ("O1", "job=in-containers no-fault", "R2"),
        ("O1", "job=in-containers sink[0].line(my_sink.py:7)#1=pause", "R2"),
        ("O1", "job=other-hosts sink[0].line(my_sink.py:7)#1=pause", "R4"),
        ("O2", "sink[0].socket.send#3=unanswered", "R7"),
        ("O2", "sink[0].write.after#1=stop sink[0].socket.send#3=error", "R10"),
        ("O2", "job=outage sink[0].open.after#2=kill-job sink[0].open.after#3=kill-job", "R9"),
        ("O1", "job=scale-in checkpoint.persist.after#1=kill-job", "R14"),
        ("O1", "job=sparse+five-to-three no-fault", "R14"),
    ],
)
def test_a_finding_names_its_likely_cause_and_the_repair(oracle: str, schedule: str, code: str) -> None:
    finding = Finding(oracle=oracle, claimed=True, shell="process", schedule=schedule, why="seen", replay="-")
    cause = with_likely_cause(finding).root_cause
    assert cause == with_repair(code)


@pytest.mark.parametrize(("what", "cause"), [("raised: Fenced: by 3", None), ("write", "R10")])
def test_a_zombie_that_was_refused_is_not_unfenced(what: str, cause: str | None) -> None:
    told = [TimelineEvent(at=0.1, actor="sink[0]", what=what)]
    finding = Finding(
        oracle="O9",
        claimed=True,
        shell="process",
        schedule="sink[0].write.after#1=stop",
        why="",
        replay="-",
        timeline=told,
    )
    assert with_likely_cause(finding).root_cause == (cause and with_repair(cause))


def with_repair(code: str) -> str:
    return f"{code}: {ROOT_CAUSES[code]}. Usual repair: {REPAIRS[code].how}. See: sinkproof explain {code}"


@pytest.mark.parametrize(
    ("oracle", "schedule", "codes"),
    [
        ("O10", "checkpoint.persist.after#1=kill-job", ["R4", "R14", "R15"]),
        ("O1", "sink[1].notify_complete.before#2=kill", ["R4", "R14", "R15"]),
        ("O1", "job=outage checkpoint.persist.after#1=kill", ["R9", "R6"]),
        ("O2", "checkpoint.persist.after#1=kill", ["R2", "R17"]),
        ("O1", "job=late-settling checkpoint.notify#1=lose checkpoint.persist.after#3=kill", ["R12"]),
        ("O7", "job=scale-in checkpoint.persist.after#1=kill", ["R11"]),
        ("O1", "no-fault", ["R2", "R18"]),
        ("O1", "source[1].acknowledge.before#3=decline", ["R12"]),
        ("O2", "sink[0].acknowledge.before#1=decline checkpoint.persist.after#1=kill", ["R12"]),
    ],
)
def test_the_step_of_a_death_tells_what_is_likely(oracle: str, schedule: str, codes: list[str]) -> None:
    """A commit that has not begun cannot have been cut in two."""
    finding = Finding(oracle=oracle, claimed=True, shell="process", schedule=schedule, why="seen", replay="-")
    assert with_likely_cause(finding).root_cause == ". Or ".join(map(with_repair, codes))


@pytest.mark.parametrize(
    ("schedule", "situation"),
    [
        ("job=twelve-sinks sink[0].write.after#1=kill-job", NUMBERS_AS_TEXTS),
        ("ids=299998 sink[0].open.after#1=kill", NUMBERS_AS_TEXTS),
        ("job=twelve-of-both+scale-in no-fault", NUMBERS_AS_TEXTS),
        ("job=zombie-very-late sink[0].write.after#1=stop", FORGOTTEN),
        ("job=edge-case-values no-fault", ALIKE),
        ("job=year-end no-fault", DATES),
        ("job=far-larger-data no-fault", MUCH_DATA),
        ("job=null-characters no-fault", ALIKE),
        ("job=large-offsets no-fault", TOO_SMALL),
        ("job=skipped-ids no-fault", SITUATIONS["skipped-ids"]),
        ("job=pieces no-fault", READ_ONCE),
        ("job=made-twelve-times-84 no-fault", NUMBERS_AS_TEXTS),
        ("job=made-apart-1024 no-fault", MADE_ONE),
        ("job=made-exactly-100 no-fault", LAST_IS_FULL),
        ("job=orphans sink[0].program.start#1=kill", PROGRAM_OUTLIVES),
        (" ".join(f"sink[0].open.after#{time}=kill-job" for time in range(2, 9)), KEPT_FOR_SOME_ATTEMPTS),
        ("job=dozens-of-checkpoints checkpoint.persist.after#60=kill-job", SITUATIONS["dozens-of-checkpoints"]),
        ("job=long-waits sink[0].line(a.py:1)#1=stop", SITUATIONS["long-waits"]),
        ("sink[0].line(a.py:1)#1=stop sink[0].line(a.py:2)#2=pause", SHOWN_BY_FAULTS["stop", "pause"]),
        ("sink[0].syscall(sendto socket)#2=error sink[0].line(a.py:2)#2=stop", LOST_SESSION),
        (f"job=long-waits {REFUSED}#1=unavailable {REFUSED}#2=unavailable", GIVEN_UP),
        (
            "job=late-settling checkpoint.notify#1=lose sink[0].line(a.py:1)#1=pause sink[1].line(a.py:1)#1=pause",
            SHOWN_BY_FAULTS["pause", "pause"],
        ),
        ("sink[0].socket.send#2=closed", SHOWN_BY_FAULTS["closed",]),
        ("sink[0].socket.send#2=throttled", SHOWN_BY_FAULTS["throttled",]),
        ("sink[0].socket.send#2=gateway-timeout", SHOWN_BY_FAULTS["gateway-timeout",]),
        ("sink[0].socket.send#2=bad-gateway", SHOWN_BY_FAULTS["bad-gateway",]),
        ("sink[0].socket.send#2=reply-cut", SHOWN_BY_FAULTS["reply-cut",]),
        ("sink[0].socket.send#2=request-delayed", SHOWN_BY_FAULTS["request-delayed",]),
        ("sink[0].socket.send#2=items-rejected", SHOWN_BY_FAULTS["items-rejected",]),
        ("sink[0].socket.send#2=some-rejected", SHOWN_BY_FAULTS["some-rejected",]),
        ("sink[0].socket.send#2=late-reply", SHOWN_BY_FAULTS["late-reply",]),
        ("sink[0].syscall(sendto socket)#2=silent", SHOWN_BY_FAULTS["silent",]),
        *(
            (f"sink[0].syscall(sendto socket)#2={kind}", SHOWN_BY_FAULTS[kind,])
            for kind in ("overlap", "meet", "kill-halfway")
        ),
        ("sink[0].syscall(sendto socket)#2=black-hole", SHOWN_BY_FAULTS["black-hole",]),
        ("sink[0].notify_complete.after#1=kill-job sink[0].socket.send#9=unavailable", SHOWN_BY_FAULTS["unavailable",]),
    ],
)
def test_what_is_found_in_a_special_situation_names_it_and_no_canary(schedule: str, situation: str) -> None:
    finding = Finding(oracle="O1", claimed=True, shell="process", schedule=schedule, why="seen", replay="-")
    assert with_likely_cause(finding).root_cause == situation


@pytest.mark.parametrize(
    ("schedule", "is_cut"),
    [
        ("sink[0].syscall(sendto socket)#1=short-write", True),
        ("sink[0].syscall(sendto socket)#1=land", False),
        ("sink[0].syscall(sendto socket)#1=kill", True),
        ("sink[0].syscall(sendto socket)#1=error", False),
        ("sink[0].syscall(write rows.csv)#1=land", False),
    ],
)
def test_a_request_that_is_cut_off_may_be_the_targets_fault(schedule: str, is_cut: bool) -> None:
    finding = Finding(oracle="O1", claimed=True, shell="process", schedule=schedule, why="seen", replay="-")
    assert is_cut is (HALF_A_REQUEST in (with_likely_cause(finding).root_cause or ""))


def test_a_job_that_restores_with_other_parallelism_tells_nothing_where_nothing_was_restored() -> None:
    pauses = "job=three-to-two sink[0].line(my_sink.py:7)#1=pause sink[1].line(my_sink.py:7)#1=pause"
    finding = Finding(oracle="O1", claimed=True, shell="process", schedule=pauses, why="seen", replay="-")
    assert "R14" not in (with_likely_cause(finding).root_cause or "")


def test_a_checkpoint_that_is_seen_in_part_is_not_published_in_one_step() -> None:
    finding = Finding(oracle="O4", claimed=True, shell="simulated", schedule="no-fault", why="", replay="-")
    assert SEEN_IN_PART == with_likely_cause(finding).root_cause


def test_what_no_canary_looks_like_gets_no_cause() -> None:
    finding = Finding(oracle="O4", claimed=True, shell="process", schedule="sink[0].a.b#1=kill", why="", replay="-")
    assert with_likely_cause(finding).root_cause is None


@pytest.mark.parametrize("code", ROOT_CAUSES)
def test_each_canary_of_a_cause_is_shown_beside_its_control(code: str) -> None:
    text = explained(code)
    assert REPAIRS[code].how in text
    for canary in CANARIES:
        assert (canary.root_cause == code) == (f"canary {canary.name!r}: {code}: " in text)
    assert "  +" in text


def test_what_is_called_right_is_no_other_canary() -> None:
    (before,) = (part for part in explained("R1").split("canary ") if part.startswith("'marker before data'"))
    assert '  -    """The rename is both data and marker."""' in before
