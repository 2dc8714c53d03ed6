"""Which anomalies do not count, because an injected fault broke a promise made to the sink.

rewind, forget   An older checkpoint was restored, or none: rows are read again, and the sink cannot know. Repeats,
                 early rows, disorder and residue are allowed; losing rows in a job that finishes is not (O1), nor are
                 altered rows (O12). A job that fails is allowed, too, because what a newer checkpoint made superfluous
                 may be gone.
drain            The sink was notified that no row follows, and then the job went on. It may refuse that by an error; if
                 it goes on, it has to be right.
expire           The target has dropped what it had promised to keep, and no sink can restore it. A right sink raises an
                 error: the job does not finish, and rows are missing. If the job finishes, missing rows were lost
                 silently (O1), and all other anomalies count.
clock-forward    The clocks of attempts say that time has passed; a sink may have limits of its own. As after expire.
outage           (a job, not a fault) The job was down for a day; what the target keeps for an hour may be gone. Judged
                 as after expire; not where the target is files, which nothing but the sink removes.
moved clock      (jobs) The wall clock of attempts was moved, and they sent to a server that keeps the true time. It may
                 refuse what is dated or signed by another clock. Judged as after expire.
refusable data   (some jobs) A target may refuse what it cannot hold: long keys, some characters,
                 large numbers. Judged as after expire. But a sink that has acknowledged 20,000 rows of one checkpoint,
                 and raises an error whenever it is to commit them, leaves its claims unknown.
late settling    (a job) settle() is called after the next checkpoint is complete, in each attempt. A sink that declines
                 checkpoints while anything is in doubt makes no progress there, and says so: that is right, too.
suspended for long
                 (a job) An attempt is suspended for six hundred checkpoints, and may hold what its successors need:
                 a lock, or a transaction of SQLite. They raise errors until the job gives up, before the first one goes
                 on. Judged as after expire.
long waits       (a job) What sleeps wakes up after a hundredth of the time. A sink that polls for minutes gives up, by
                 an error, after seconds, before others, or a server, have done what it waits for; the job ends with its
                 second failure. Judged as after expire.
short-write      A disk that is full may leave half of what a library makes when it is used first. A job that can never
                 begin, and says so by errors, has lost nothing before its first checkpoint is complete.
short-write, kill-job
                 The job died when half of a record was written. A reader may refuse such a record by an error: rows
                 that it does not come to are not lost silently. One that leaves it out has to find all rows.
lose-*           Loss and altered rows are O8 instead of O1 and O12. So are a job that never recovers, and repeats if
                 NO_DUPLICATES is claimed.
                 All belongs to the claim SURVIVES_POWER_LOSS; no other claim covers a loss of power.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sinkproof.chaos.faults import POWER_LOSSES
from sinkproof.judging.oracle import Anomaly, Observation
from sinkproof.subject.claims import Claim

REWINDS: Final = frozenset({"rewind", "forget"})
OUTAGE: Final = "outage"
MOVED_CLOCK: Final = "moved clock"
REFUSABLE: Final = "refusable data"
LATE_SETTLING: Final = "late settling"
SUSPENDED_FOR_LONG: Final = "suspended for long"
LONG_WAITS: Final = "long waits"
MAY_FAIL: Final = frozenset(
    {
        *("drain", "expire", "clock-forward"),
        *(OUTAGE, MOVED_CLOCK, REFUSABLE, LATE_SETTLING, SUSPENDED_FOR_LONG, LONG_WAITS),
    }
)
COMPLETE, RAISED, OF_SINKS = "complete", "raised", "SinkError"  # in histories; errors of processes
SHORT_WRITE: Final = "short-write"
TORN: Final = frozenset({SHORT_WRITE, "kill-job"})
OF_LOUD_FAILURES: Final = ("O1", "O5", "O6", "O10")  # expected of a job that fails with an error


def still_promised(anomalies: tuple[Anomaly, ...], seen: Observation, *, claims: Claim) -> tuple[Anomaly, ...]:
    """The anomalies that count, given the faults that were injected in the run."""
    if not anomalies or not seen.kinds:
        return anomalies
    kinds = frozenset(seen.kinds)
    left: Iterable[Anomaly] = anomalies
    if kinds & REWINDS:
        left = [each for each in left if each.oracle == "O12" or (each.oracle == "O1" and seen.finished)]
    if kinds & MAY_FAIL and not seen.finished:
        left = [each for each in left if each.oracle not in OF_LOUD_FAILURES]
    if SHORT_WRITE in kinds and not (seen.finished or seen.has_checkpoint):
        left = [each for each in left if each.oracle not in OF_LOUD_FAILURES]
    if kinds >= TORN and seen.unreadable:
        left = [each for each in left if each.oracle != "O1"]
    if not kinds.isdisjoint(POWER_LOSSES):
        counting = {"O1", "O6", "O12"} | ({"O2"} if Claim.NO_DUPLICATES in claims else set())
        left = [_of_power(each) for each in left if each.oracle in counting]
    return tuple(left)


def gave_up_before_a_zombie_went_on(history: Sequence[tuple[Any, ...]]) -> bool:
    """Whether attempts have raised errors, and none after the suspended one has gone on. `history`: see RunResult."""
    stops = [each for each in history if each[4] == "stop"]
    raised = [at for at, *_, what, _ in history if what == RAISED]
    if not (stops and raised):
        return False
    stopped_at, zombie, generation, *_ = stops[0]
    went_on = [at for at, *attempt, _, _ in history if attempt == [zombie, generation] and at > stopped_at]
    return not went_on or max(raised) < min(went_on)


def refused_although_acknowledged(history: Sequence[tuple[Any, ...]]) -> str:
    """What the sinks of a job that has failed have raised, each time, since a checkpoint was complete; empty if none
    was, or if an attempt has ended in another way. `history`: see RunResult.
    """
    complete = next((place for place, (*_, what, _) in enumerate(history) if what == COMPLETE), len(history))
    raised = [str(detail) for *_, what, detail in history[complete:] if what == RAISED]
    return raised[-1] if raised and all(each.startswith(OF_SINKS) for each in raised) else ""


def _of_power(anomaly: Anomaly) -> Anomaly:
    return replace(anomaly, oracle="O8", why=f"after a power loss: {anomaly.why}")
