"""What is still promised after which fault. A fault that breaks a promise made to sinks convicts nobody of the breach.

rewind, forget   an older checkpoint was restored, or none: rows are read again, and a sink cannot know. Repeats, early
                 rows, disorder and residue are allowed; losing rows in a job that finishes is not (O1). A job that
                 fails is allowed, too: what a newer checkpoint made superfluous may be gone, as long as it is said
drain            "no row follows" was said, and then the job went on. A sink may refuse that, loudly; if it goes on, it
                 has to be right
expire           the target has dropped what it had promised to keep, and no sink can bring that back. A right sink
                 fails loudly: the job does not finish, and its rows are missing. If the job finishes, rows that are
                 missing were lost silently (O1), and all else counts as ever
outage           (a job, not a fault) the job was down for a day. What was kept for an hour may be gone; as after
                 expire, a job that fails loudly is right, and one that finishes without its rows has lost them
late settling    (a job) what is in doubt is asked about when the next checkpoint is complete, in each attempt anew. Who
                 declines checkpoints until nothing is in doubt never gets on there, and says so: that is right, too
lose-*           loss is O8 instead of O1; so is a job that never recovers, and so are repeats, for those who claim that
                 there are none. All belongs to the claim SURVIVES_POWER_LOSS: nobody else has promised anything here
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from sinkproof.judging.oracle import Anomaly, Observation
from sinkproof.subject.claims import Claim

REWINDS: Final = frozenset({"rewind", "forget"})
OUTAGE: Final = "outage"
LATE_SETTLING: Final = "late settling"
POWER_LOSSES: Final = frozenset({"lose-power", "lose-bytes", "lose-names"})
OF_LOUD_FAILURES: Final = ("O1", "O5", "O6", "O10")


def still_promised(anomalies: tuple[Anomaly, ...], seen: Observation, *, claims: Claim) -> tuple[Anomaly, ...]:
    """Those that count, given what has struck in the run."""
    if not anomalies or not seen.kinds:
        return anomalies
    kinds = frozenset(seen.kinds)
    left: Iterable[Anomaly] = anomalies
    if kinds & REWINDS:
        left = [each for each in left if each.oracle == "O1" and seen.finished]
    if kinds & {"drain", "expire", OUTAGE, LATE_SETTLING} and not seen.finished:
        left = [each for each in left if each.oracle not in OF_LOUD_FAILURES]
    if kinds & POWER_LOSSES:
        counting = {"O1", "O6"} | ({"O2"} if Claim.NO_DUPLICATES in claims else set())
        left = [_of_power(each) for each in left if each.oracle in counting]
    return tuple(left)


def _of_power(anomaly: Anomaly) -> Anomaly:
    return replace(anomaly, oracle="O8", why=f"after a power loss: {anomaly.why}")
