"""Judges one run: compares the observation with the ledger. It imports neither engine nor adapters.

The anomalies:

O1  loss            a row of the ledger is not in the committed view at quiescence
O2  duplicate       a row is in the committed view at quiescence more often than in the ledger, or not in the ledger
O3  early row       a reader saw a row before the checkpoint that covers it was complete; or a reader that follows the
                    output received a row again (harmless if it keeps the last row of each key, but not exactly once)
O4  torn checkpoint a reader saw some rows of a complete checkpoint, but not all
O5  disorder        rows of one key of one split are read in another order than they were written
O6  no recovery     the job did not finish after the schedule's last fault: it failed more than 25 times, or restarted
                    in a cycle; or rows of a restored checkpoint stay invisible until another checkpoint is complete
O7  residue         something invisible is left (a transaction, a staged or temporary file) after one more recovery
                    without faults. A sink that removes something live has lost rows: O1
O8  power           O1, O2 or O6 after the power was lost (fault_allowances.py)
O9  zombie          a replaced attempt, when it resumed, changed the committed view beyond complete checkpoints
O10 false vote      all subtasks had acknowledged checkpoint n, but a recovery from it did not bring back its rows
O11 false marker    what the sink's own marker calls complete is not in the committed view, or not complete
O12 altered row     a row of the committed view at quiescence has another key, value or event time than the ledger's row
                    of that identity, where the reader shows them (altered_rows.py)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sinkproof.judging.altered_rows import Fields, altered_rows, described, fields_shown
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
    """What an independent reader saw of one run. Filled while the run goes on, judged afterwards."""

    committed: list[Identity] = field(default_factory=list)  # at quiescence, in reading order
    rows: list[Any] = field(default_factory=list)  # the same, as the reader gave them; empty: identities only
    seen: list[Identity] | None = None  # by a reader that follows the output; None: as committed
    early: list[tuple[Identity, int]] = field(default_factory=list)  # row, and the checkpoint that was not complete
    residue: tuple[str, ...] = ()
    zombie_added: list[tuple[str, Identity]] = field(default_factory=list)  # (actor, row) beyond complete checkpoints
    zombie_removed: list[tuple[str, Identity]] = field(default_factory=list)
    recovery_missed: list[tuple[int, Identity]] = field(default_factory=list)  # (checkpoint, row) not brought back
    torn: list[tuple[int, tuple[Identity, ...]]] = field(default_factory=list)  # (checkpoint, its hidden rows)
    claimed: list[tuple[str, tuple[Identity, ...]]] = field(default_factory=list)  # (what a marker says, hidden rows)
    kinds: list[str] = field(default_factory=list)  # of the faults that struck
    unreadable: str = ""  # the last failure of the reader; at quiescence: why `committed` is empty
    readings: int = 0  # that have succeeded while the job ran
    doubtful_hook: str = ""  # what is wrong with a hook of the contract, at the end of the run
    evidence: tuple[str, ...] = ()  # errors that the target reports, read where rows are wrong; they decide nothing
    finished: bool = True
    failure: str = ""
    has_checkpoint: bool = True  # a complete one: its rows are promised


def judge(
    ledger: Ledger,
    observed: Observation,
    *,
    rows: str = "append",
    ordered: bool = False,
    fields: Fields | None = None,
) -> tuple[Anomaly, ...]:
    """Every anomaly of one run.

    `rows`: "append" (each once) or "upsert" (the last of each key); `ordered`: look for O5; `fields`: that the reader
    shows, where a run without faults has told; else this run tells.
    """
    expected = ledger.expected if rows == "append" else ledger.last_per_key()
    zombies = [*observed.zombie_added, *observed.zombie_removed]
    noted = (observed.early, observed.residue, zombies, observed.recovery_missed, observed.torn, observed.claimed)
    if not any(noted) and observed.finished and observed.seen is None and sorted(observed.committed) == expected:
        found = _altered(ledger, observed, fields)
        return tuple(_disorder(ledger, observed.committed) + found) if ordered else tuple(found)
    is_cut = rows != "append" and not observed.finished  # then older rows of a key are there
    may_be_there = ledger.one_per_key(observed.committed) if is_cut else expected
    found = [
        *_loss_and_duplicates(expected, observed, may_be_there=may_be_there),
        *_in_between(observed),
        *_zombies(observed),
        *_recoveries(observed),
    ]
    found += [*_torn(observed), *_markers(observed), *_altered(ledger, observed, fields)]
    if ordered:
        found += _disorder(ledger, observed.committed)
    if observed.residue:
        left = ", ".join(observed.residue[:NAMED_ROWS_MOST])
        why = f"{len(observed.residue)} things are left after a recovery without faults: {left}"
        found.append(Anomaly(oracle="O7", why=why))
    if not observed.finished:
        found.append(Anomaly(oracle="O6", why=f"the job did not recover: {observed.failure or 'it never finished'}"))
    return tuple(_with_evidence(anomaly, observed.evidence) for anomaly in found)


def _with_evidence(anomaly: Anomaly, evidence: Sequence[str]) -> Anomaly:
    """Adds the errors that the target reports to anomalies that it may have caused; they remain anomalies."""
    if not evidence or anomaly.oracle not in TARGET_MAY_TELL:
        return anomaly
    return replace(anomaly, why=f"{anomaly.why}. The target says: {'; '.join(evidence)}")


def _loss_and_duplicates(
    expected: Sequence[Identity], observed: Observation, *, may_be_there: Sequence[Identity]
) -> list[Anomaly]:
    have = Counter(observed.committed)
    lost = tuple(sorted((Counter(expected) - have).elements()))
    extra = tuple(sorted((have - Counter(may_be_there)).elements()))
    found = []
    if lost:
        why = f"{len(lost)} of {len(expected)} rows lost: {named(lost)}"
        if observed.unreadable:
            why = f"the committed view cannot be read any more: {observed.unreadable}"
        found.append(Anomaly(oracle="O1", why=why, lost=lost))
    if extra:
        why = f"{len(extra)} rows more than there should be: {named(extra)}"
        found.append(Anomaly(oracle="O2", why=why, extra=extra))
    return found


def _in_between(observed: Observation) -> list[Anomaly]:
    found = []
    if observed.early:
        rows = tuple(sorted({row for row, _ in observed.early}))
        first = min(checkpoint for _, checkpoint in observed.early)
        why = f"{len(rows)} rows visible before checkpoint {first} was complete: {named(rows)}"
        found.append(Anomaly(oracle="O3", why=why, extra=rows))
    repeats = Counter(observed.seen or ()) - Counter(set(observed.seen or ()))
    if repeats:
        again = tuple(sorted(repeats.elements()))
        why = f"a reader that follows the output receives {len(again)} rows again: {named(again)}"
        found.append(Anomaly(oracle="O3", why=why, extra=again))
    return found


def _zombies(observed: Observation) -> list[Anomaly]:
    found = []
    for what, effects in (("added", observed.zombie_added), ("removed", observed.zombie_removed)):
        rows = tuple(sorted({row for _, row in effects}))
        if rows:
            actors = ", ".join(sorted({actor for actor, _ in effects}))
            why = f"the replaced attempt of {actors} {what} {len(rows)} rows when it resumed: {named(rows)}"
            lost, extra = ((), rows) if what == "added" else (rows, ())
            found.append(Anomaly(oracle="O9", why=why, lost=lost, extra=extra))
    return found


def _recoveries(observed: Observation) -> list[Anomaly]:
    if not observed.recovery_missed:
        return []
    rows = tuple(sorted({row for _, row in observed.recovery_missed}))
    first = min(checkpoint for checkpoint, _ in observed.recovery_missed)
    why = f"all subtasks acknowledged checkpoint {first}, but a recovery from it does not bring back {named(rows)}"
    return [Anomaly(oracle="O10", why=why, lost=rows)]


def _torn(observed: Observation) -> list[Anomaly]:
    if not observed.torn:
        return []
    checkpoint_id, hidden = min(observed.torn)
    why = f"a reader sees some rows of checkpoint {checkpoint_id}, but not {named(hidden)}"
    return [Anomaly(oracle="O4", why=why, lost=hidden)]


def _markers(observed: Observation) -> list[Anomaly]:
    if not observed.claimed:
        return []
    claim, hidden = observed.claimed[0]
    but = f"{named(hidden)} cannot be read" if hidden else "it is not"
    why = f"the marker says that {claim} is complete, but {but}"
    return [Anomaly(oracle="O11", why=why, lost=hidden)]


def fields_of(ledger: Ledger, observed: Observation) -> Fields:
    """The fields that the reader shows, as this run without faults tells."""
    return fields_shown(ledger, observed.committed, observed.rows)


def _altered(ledger: Ledger, observed: Observation, fields: Fields | None) -> list[Anomaly]:
    if not observed.rows:
        return []
    if fields is None:
        fields = fields_of(ledger, observed)
    found = altered_rows(ledger, observed.committed, observed.rows, fields=fields) if fields else ()
    return [Anomaly(oracle="O12", why=described(ledger, found))] if found else []


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
    """Rows for a sentence: (split, offset), ten at most."""
    words = ", ".join(f"({split}, {offset})" for split, offset in rows[:NAMED_ROWS_MOST])
    return words + (f", ... {len(rows) - NAMED_ROWS_MOST} more" if len(rows) > NAMED_ROWS_MOST else "")
