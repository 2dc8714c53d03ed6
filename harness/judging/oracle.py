"""What counts as wrong. The oracle knows the ledger and the observation, and nothing of engines or sinks.

Each anomaly, as it is judged here:

O1  loss            a row of the ledger is not in the committed view at quiescence
O2  duplicate       a row is in the committed view at quiescence more often than the ledger has it, or was never there
O3  early row       a reader saw a row before the checkpoint that covers it was complete; or, following the output, it
                    met a row again that it had seen (harmless where the reader folds, but not exactly once)
O4  torn checkpoint a reader saw some rows of a complete checkpoint, and others of it not
O5  disorder        rows of one key of one split are read in another order than they were written
O6  no recovery     the job did not finish, although the schedule's faults were over: it failed more than 25 times or
                    went round in circles; or what a recovery restored stays invisible until something else happens
O7  residue         something invisible lingers (a transaction, a staged or temporary file) after one more quiet
                    recovery; who removes something live instead has lost it: O1
O8  power           O1, O2 or O6 after the power was lost (fault_allowances.py)
O9  zombie          what a replaced attempt did, once it went on, changed the committed view beyond complete checkpoints
O10 false vote      when checkpoint n had been acknowledged by all, a recovery from it alone did not bring back its rows
O11 false marker    what the sink's own marker calls complete is not in the committed view, or no complete checkpoint
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sinkproof.workload.ledger import Identity, Ledger

TARGET_MAY_TELL = ("O1", "O6", "O7")
NAMED_ROWS_MOST = 10  # in a sentence; the lists hold all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    oracle: str
    why: str
    lost: tuple[Identity, ...] = ()
    extra: tuple[Identity, ...] = ()


@dataclass(slots=True, kw_only=True)
class Observation:
    """What one run showed to an independent reader. Filled while it runs, judged afterwards."""

    committed: list[Identity] = field(default_factory=list)  # at quiescence, in reading order
    seen: list[Identity] | None = None  # by a reader that follows the output; None: as committed
    early: list[tuple[Identity, int]] = field(default_factory=list)  # row, and the checkpoint that was not complete
    residue: tuple[str, ...] = ()
    zombie_added: list[tuple[str, Identity]] = field(default_factory=list)  # (actor, row) beyond complete checkpoints
    zombie_removed: list[tuple[str, Identity]] = field(default_factory=list)
    recovery_missed: list[tuple[int, Identity]] = field(
        default_factory=list
    )  # (checkpoint, row) after a quiet recovery
    torn: list[tuple[int, tuple[Identity, ...]]] = field(default_factory=list)  # (checkpoint, its rows not visible)
    claimed: list[tuple[str, tuple[Identity, ...]]] = field(default_factory=list)  # (by a marker, its rows not visible)
    kinds: list[str] = field(default_factory=list)  # of the faults that struck
    unreadable: str = ""  # the last failure of the reader; at quiescence: why there is nothing in `committed`
    evidence: tuple[str, ...] = ()  # what the target itself says, where something is amiss; decides nothing
    finished: bool = True
    failure: str = ""


def judge(ledger: Ledger, seen: Observation, *, rows: str = "append", ordered: bool = False) -> tuple[Anomaly, ...]:
    """Every anomaly of one run.

    `rows`: "append" (each once) or "upsert" (the last of each key); `ordered`: look for O5.
    """
    expected = ledger.expected if rows == "append" else ledger.last_per_key()
    quiet = not (seen.early or seen.residue or seen.zombie_added or seen.zombie_removed or seen.recovery_missed)
    quiet = quiet and not (seen.torn or seen.claimed) and seen.finished and seen.seen is None
    if quiet and sorted(seen.committed) == expected:
        return tuple(_disorder(ledger, seen.committed)) if ordered else ()
    found = [*_loss_and_duplicates(expected, seen), *_in_between(seen), *_zombies(seen), *_recoveries(seen)]
    found += [*_torn(seen), *_markers(seen)]
    if ordered:
        found += _disorder(ledger, seen.committed)
    if seen.residue:
        why = f"{len(seen.residue)} things linger after a quiet recovery: {', '.join(seen.residue[:NAMED_ROWS_MOST])}"
        found.append(Anomaly(oracle="O7", why=why))
    if not seen.finished:
        found.append(Anomaly(oracle="O6", why=f"the job did not recover: {seen.failure or 'it never finished'}"))
    return tuple(_with_evidence(anomaly, seen.evidence) for anomaly in found)


def _with_evidence(anomaly: Anomaly, evidence: Sequence[str]) -> Anomaly:
    """What is not to be read, or lingers, may be the target's doing: it is wrong all the same, and this says whose."""
    if not evidence or anomaly.oracle not in TARGET_MAY_TELL:
        return anomaly
    return replace(anomaly, why=f"{anomaly.why}. The target says: {'; '.join(evidence)}")


def _loss_and_duplicates(expected: Sequence[Identity], seen: Observation) -> list[Anomaly]:
    have, want = Counter(seen.committed), Counter(expected)
    lost, extra = tuple(sorted((want - have).elements())), tuple(sorted((have - want).elements()))
    found = []
    if lost:
        why = f"{len(lost)} of {len(expected)} rows lost: {named(lost)}"
        if seen.unreadable:
            why = f"the committed view cannot be read any more: {seen.unreadable}"
        found.append(Anomaly(oracle="O1", why=why, lost=lost))
    if extra:
        why = f"{len(extra)} rows more than there should be: {named(extra)}"
        found.append(Anomaly(oracle="O2", why=why, extra=extra))
    return found


def _in_between(seen: Observation) -> list[Anomaly]:
    found = []
    if seen.early:
        rows = tuple(sorted({row for row, _ in seen.early}))
        first = min(checkpoint for _, checkpoint in seen.early)
        why = f"{len(rows)} rows visible before checkpoint {first} was complete: {named(rows)}"
        found.append(Anomaly(oracle="O3", why=why, extra=rows))
    repeats = Counter(seen.seen or ()) - Counter(set(seen.seen or ()))
    if repeats:
        again = tuple(sorted(repeats.elements()))
        why = f"a reader that follows the output meets {len(again)} rows again: {named(again)}"
        found.append(Anomaly(oracle="O3", why=why, extra=again))
    return found


def _zombies(seen: Observation) -> list[Anomaly]:
    found = []
    for what, effects in (("added", seen.zombie_added), ("removed", seen.zombie_removed)):
        rows = tuple(sorted({row for _, row in effects}))
        if rows:
            who = ", ".join(sorted({actor for actor, _ in effects}))
            why = f"the replaced attempt of {who} {what} {len(rows)} rows when it went on: {named(rows)}"
            lost, extra = ((), rows) if what == "added" else (rows, ())
            found.append(Anomaly(oracle="O9", why=why, lost=lost, extra=extra))
    return found


def _recoveries(seen: Observation) -> list[Anomaly]:
    if not seen.recovery_missed:
        return []
    rows = tuple(sorted({row for _, row in seen.recovery_missed}))
    first = min(checkpoint for checkpoint, _ in seen.recovery_missed)
    why = f"checkpoint {first} was acknowledged by all, but its durable state does not bring back {named(rows)}"
    return [Anomaly(oracle="O10", why=why, lost=rows)]


def _torn(seen: Observation) -> list[Anomaly]:
    if not seen.torn:
        return []
    checkpoint_id, hidden = min(seen.torn)
    why = f"a reader sees some rows of checkpoint {checkpoint_id}, but not {named(hidden)}"
    return [Anomaly(oracle="O4", why=why, lost=hidden)]


def _markers(seen: Observation) -> list[Anomaly]:
    if not seen.claimed:
        return []
    claim, hidden = seen.claimed[0]
    but = f"{named(hidden)} cannot be read" if hidden else "it is not"
    why = f"the marker says that {claim} is complete, but {but}"
    return [Anomaly(oracle="O11", why=why, lost=hidden)]


def _disorder(ledger: Ledger, committed: Sequence[Identity]) -> list[Anomaly]:
    last: dict[tuple[str, int], int] = {}
    for identity in committed:
        row = ledger.rows.get(identity)
        if row is None:
            continue
        stream = (row.key, row.split)
        if last.get(stream, -1) >= row.offset:
            why = f"key {row.key}: row {identity} is read after offset {last[stream]} of the same split"
            return [Anomaly(oracle="O5", why=why, extra=(identity,))]
        last[stream] = row.offset
    return []


def named(rows: Sequence[Identity]) -> str:
    """Rows for a sentence: (split, offset), not more than a reader can take in."""
    words = ", ".join(f"({split}, {offset})" for split, offset in rows[:NAMED_ROWS_MOST])
    return words + (f", ... {len(rows) - NAMED_ROWS_MOST} more" if len(rows) > NAMED_ROWS_MOST else "")
